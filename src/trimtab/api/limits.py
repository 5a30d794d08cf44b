"""Limits on input that others send: bytes, depth, values and steps. docs/explanation/security.md lists them.

Every parser counts while it scans and stops at its limit, so that no input costs more than its share of a second.
"""

MAX_BODY_BYTES = 3 * 1024 * 1024
"""Bytes of a request body, as in kube-apiserver."""
MAX_OBJECT_BYTES = 3 * 1024 * 1024
MAX_OBJECT_NODES = 200_000
"""Bytes and values of a stored object, with its managed fields; a series of patches cannot make it larger."""
MAX_DEPTH = 200
"""Nesting of objects and lists in a document; what is stored, wrapped and sent again must stay below orjson's 254."""
MAX_NODES = 100_000
"""Values of a document, counted after YAML aliases and merge keys are expanded."""
MAX_PATH_LENGTH = 4096
"""Characters of all keys on the way to a value; messages and field sets repeat the way for each value."""
MAX_TAG_DIRECTIVES = 100
"""`%TAG` lines of a YAML text; the parser compares each of them with all others."""
MAX_NUMBER_LENGTH = 400
"""Characters of a number; converting longer ones takes more than linear time."""
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_FILE_NODES = 5_000_000
"""Bytes and values of a file that a command reads: a file may contain a whole fleet."""

MAX_YAML_BYTES_IN_LOOP = 64 * 1024
MAX_YAML_TOKENS_IN_LOOP = 5_000
MAX_YAML_VALUES_IN_LOOP = 2_000
MAX_PROTOBUF_FIELDS_IN_LOOP = 10_000
MAX_VALUES_IN_LOOP = 8_000
"""Larger YAML texts and protobuf messages are converted in a worker process, so that the server goes on meanwhile, and
objects with more values are processed in a thread."""
MAX_JSON_BYTES_IN_LOOP = 256 * 1024
"""Larger JSON texts are processed in the thread however few values they have: escapes and long strings cost time as well."""
MAX_BYTES_IN_LOOP = 64 * 1024
"""Stored bytes of an object of a list or watch that is decoded in the event loop; larger ones are decoded in a thread."""
MAX_SCHEMA_VALUES_IN_LOOP = 2_000
"""Values of the schema of a CustomResourceDefinition whose objects are processed in the event loop, about five microseconds
each for the first object."""
MAX_OBJECTS_IN_LOOP = 200
"""Objects of a response of the search that is built in the event loop; that of more is built in a thread."""
MAX_WORKERS = 2
MAX_WAITING_FOR_WORKER = 16
WORKER_SECONDS = 20.0
WORKER_BYTES = 1 << 30
"""Worker processes at a time, requests that wait for one, and the time and memory that one conversion may take."""
MAX_REMOTE_REQUESTS = 200
"""Requests at a time to one API server that an APIService registers."""
MAX_REMOTE_ANSWER_BYTES = 64 << 20
"""The longest answer of such a server that is read; watches have no limit."""
MAX_PROTOBUF_FIELDS = 300_000
"""Fields of a protobuf message and of what it contains; a value of a map takes three."""
MAX_PROTOBUF_DEPTH = 100
MAX_JSON_ERROR_STEPS = 10_000
"""Values that are scanned for the position and the message of a JSON syntax error."""

MAX_JSON_PATCH_OPERATIONS = 10_000
MAX_JSON_PATCH_COPIED_BYTES = 3 * 1024 * 1024
"""Operations of a JSON patch, and the bytes that its `copy` operations add, as in kube-apiserver."""

MAX_AUDIT_ANNOTATIONS = 64
MAX_AUDIT_ANNOTATION_CHARACTERS = 10 * 1024
"""What admission may say about one request in the audit log; values are as long as in Kubernetes."""
MAX_WARNINGS = 64
"""Warning headers of a response: some HTTP libraries read at most 100 headers."""
MAX_WARNING_CHARACTERS = 4096
"""Characters of all Warning headers of a response; beyond it each is shortened, as in kube-apiserver."""
MAX_SHORTENED_WARNING_CHARACTERS = 256
MAX_FIELD_PROBLEMS = 100
"""Unknown and duplicate fields that are reported for one object, as in kube-apiserver."""
MAX_CAUSES = 1_000
"""Causes that are named of why one object is refused."""

MAX_ACCEPT_LENGTH = 8 * 1024
MAX_ACCEPT_ENTRIES = 64
MAX_QUERY_PARAMETERS = 256
"""Characters and alternatives of an Accept header, and parameters of a query."""
MAX_SELECTOR_LENGTH = 64 * 1024
MAX_SELECTOR_TERMS = 1_000
"""Characters, and requirements and values, of a label or field selector; each is compared with every object."""
MAX_CACHED_TEXT_LENGTH = 1024
"""Longer selectors and headers are parsed each time instead of being kept."""
MAX_CONTINUE_TOKEN_LENGTH = 8 * 1024

MAX_JSON_PATH_LENGTH = 4096
MAX_JSON_PATH_FILTERS = 16
MAX_JSON_PATH_STEPS = 10_000
"""Characters and filters of a JSON path, and the values that it may visit; each `..` and each filter multiplies them."""
MAX_PATTERN_LENGTH = 16 * 1024
MAX_PATTERN_STATES = 20_000
MAX_PATTERN_STEPS = 400_000
"""Characters and states of a regular expression, and the states that all searches for one object may visit."""
MAX_PATTERNS = 1_000
MAX_PATTERN_STATES_OF_CRD = 200_000
"""Different regular expressions of a CustomResourceDefinition, and their states together."""
MAX_RULES = 500
"""CEL rules of a CustomResourceDefinition that differ; each takes half a millisecond to compile."""
MAX_RULE_STEPS = 200_000
"""Values that all CEL rules of one object may read; an evaluation counts as ten."""
MAX_SCHEDULE_LENGTH = 1024
"""Characters of a cron schedule."""
