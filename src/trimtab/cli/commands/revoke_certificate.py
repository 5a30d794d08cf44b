"""`trimtab revoke-certificate`: refuse a client certificate of the embedded API server from now on."""

from pathlib import Path

import click
from cryptography import x509

from trimtab.cli.support.options.data_directory import data_dir_option
from trimtab.errors import InputError
from trimtab.server.auth.certificates import CertificateAuthority
from trimtab.server.auth.revocation import FILE_NAME, RevokedCertificates


@click.command()
@click.argument("certificate", metavar="SERIAL|FILE")
@click.option("--reason", default="", help="A remark for the list.")
@data_dir_option
def command(certificate: str, reason: str, data_dir: Path) -> None:
    """Refuse the client certificate with this serial number, or in this PEM file.

    A running server reads the list within 5 seconds, answers 401 and closes the connections of the certificate. If it is the
    administrator's, the server makes a new one and writes it into its kubeconfig.
    """
    authority = CertificateAuthority(data_dir / "pki")
    path = Path(certificate)
    serial = serial_of(path) if path.is_file() else certificate
    is_new = RevokedCertificates(authority.directory / FILE_NAME).add(serial, reason)
    administrator, _ = authority.certificate_and_key("admin")
    if administrator.exists() and int(serial_of(administrator), 16) == int(serial.replace(":", ""), 16):
        administrator.unlink()
    click.echo("The certificate is revoked." if is_new else "The certificate was revoked before.")


def serial_of(path: Path) -> str:
    try:
        return f"{x509.load_pem_x509_certificate(path.read_bytes()).serial_number:x}"
    except ValueError as error:
        raise InputError(f"{path} holds no certificate in PEM") from error
