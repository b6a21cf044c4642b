"""The state of the registration, the certificates and the self-check, for the read API."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from admission import tls
from admission.registration import Registrar
from admission.self_check import SelfCheck
from common.read_model.admission import CertificateInfo, RegistrationState, SelfCheckInfo
from common.read_model.page import ReadMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationReport:
    """Reports the state of one process."""

    registrar: Registrar
    registers: bool
    pair: tls.KeyPair
    authority: Path
    check: SelfCheck

    def state(self, metadata: ReadMetadata) -> RegistrationState:
        """Return the present state."""
        certificate, registrar, check = self.pair.certificate, self.registrar, self.check
        return RegistrationState(
            metadata=metadata,
            registers=self.registers,
            registered=self.registers and registrar.right,
            configuration=registrar.configuration() if self.registers else None,
            differences=registrar.differences,
            exemptions=registrar.exemptions,
            certificate=None if certificate is None else certificate_info(certificate),
            authorities=tuple(map(certificate_info, self._authorities())),
            self_check=SelfCheckInfo(
                passed=check.right, steady=check.steady, error=check.error or None
            ),
        )

    def _authorities(self) -> Iterable[x509.Certificate]:
        try:
            return x509.load_pem_x509_certificates(tls.read_bundle(self.authority, quiet=True))
        except ValueError:  # empty, or being written
            return ()


def certificate_info(certificate: x509.Certificate) -> CertificateInfo:
    """Return the public parts of a certificate."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = tuple(str(name.value) for name in found)
    except x509.ExtensionNotFound:
        hosts = ()
    return CertificateInfo(
        subject=certificate.subject.rfc4514_string(),
        issuer=certificate.issuer.rfc4514_string(),
        hosts=hosts,
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
    )
