"""What is rejected in CertificateSigningRequests."""

import base64

import pytest

from trimtab.api.kinds.native.rules.certificates import check_certificate_signing_request

BLOCK = "-----BEGIN CERTIFICATE REQUEST-----\nMIIC\n-----END CERTIFICATE REQUEST-----\n"


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        (BLOCK, True),
        (f"# made for a test\n# with openssl\n{BLOCK}", True),
        ("", False),
        ("CERTIFICATE REQUEST", False),
        (BLOCK.replace("CERTIFICATE REQUEST", "CERTIFICATE"), False),
    ],
)
def test_request_must_have_a_pem_block_of_its_type(text: str, accepted: bool) -> None:
    spec = {
        "request": base64.b64encode(text.encode()).decode(),
        "signerName": "example.com/x",
        "usages": ["client auth"],
    }
    found = check_certificate_signing_request({"spec": spec}, None)
    assert [cause.field for cause in found] == ([] if accepted else ["spec.request"])
