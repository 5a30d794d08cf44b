"""A schema with one field of every type, for tests."""

from trimtab.api.value import Raw

GIZMO: Raw = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "small": {"type": "integer", "format": "int32"},
                "color": {"type": "string", "default": "red", "enum": ["red", "green"]},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5, "minLength": 2},
                "when": {"type": "string", "format": "date-time"},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "ios": {"x-kubernetes-int-or-string": True},
                "maybe": {"type": "string", "nullable": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "items": {
                    "type": "array",
                    "maxItems": 3,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "v": {"type": "integer", "default": 7}},
                    },
                },
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            },
            "x-kubernetes-validations": [
                {"rule": "self.size < 9 || self.color == 'green'", "message": "big ones are green"},
                {"rule": "!has(oldSelf.name) || self.name == oldSelf.name", "message": "name is immutable"},
            ],
        },
        "status": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer", "maximum": 100},
                "conditions": {"type": "array", "items": {"type": "object", "required": ["type", "status"]}},
            },
        },
    },
}
