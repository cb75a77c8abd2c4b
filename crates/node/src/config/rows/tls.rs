//! TLS.

use super::common::{NO_TLS, PORT, between, int};
use crate::config::kind::Kind;
use crate::config::row::{Section, row};

pub(super) static SECTION: Section = Section {
    title: "TLS",
    rows: &[
        row("tls-port", PORT, "0", "Port to listen on for TLS connections; 0 for none.").refused(NO_TLS),
        row(
            "tls-cert-file",
            Kind::OptionalText,
            "",
            "Certificate that this node shows other nodes, followed by any intermediate certificates (PEM).",
        ),
        row("tls-key-file", Kind::OptionalText, "", "Private key of the certificate (PEM, not encrypted)."),
        row("tls-key-file-pass", Kind::OptionalText, "", "Password of the private key.").sensitive().inert(NO_TLS),
        row("tls-client-cert-file", Kind::OptionalText, "", "Certificate for outgoing connections.").inert(NO_TLS),
        row("tls-client-key-file", Kind::OptionalText, "", "Private key for outgoing connections.").inert(NO_TLS),
        row("tls-client-key-file-pass", Kind::OptionalText, "", "Password of that key.").sensitive().inert(NO_TLS),
        row("tls-dh-params-file", Kind::OptionalText, "", "Diffie-Hellman parameters.").inert(NO_TLS),
        row(
            "tls-ca-cert-file",
            Kind::OptionalText,
            "",
            "Authorities that sign the certificates of all nodes (PEM). All three files are read again when they \
             change.",
        ),
        row("tls-ca-cert-dir", Kind::OptionalText, "", "Directory of such certificates.").inert(NO_TLS),
        row("tls-auth-clients", Kind::Enum(&["no", "yes", "optional"]), "yes", "Whether clients need a certificate.")
            .inert(NO_TLS),
        row("tls-replication", Kind::Bool, "no", "Whether replication links use TLS.").inert(NO_TLS),
        row(
            "tls-cluster",
            Kind::Bool,
            "no",
            "Whether nodes speak TLS 1.3 with each other. Both sides show certificates. All nodes must have the \
             same value, which cannot change while they run.",
        ),
        row("tls-protocols", Kind::OptionalText, "", "Versions to accept, such as `TLSv1.2 TLSv1.3`.").inert(NO_TLS),
        row("tls-ciphers", Kind::OptionalText, "", "Ciphers for TLS 1.2.").inert(NO_TLS),
        row("tls-ciphersuites", Kind::OptionalText, "", "Cipher suites for TLS 1.3.").inert(NO_TLS),
        row("tls-prefer-server-ciphers", Kind::Bool, "no", "Choose the cipher by the server's order.").inert(NO_TLS),
        row("tls-session-caching", Kind::Bool, "yes", "Whether sessions may be resumed.").inert(NO_TLS),
        row("tls-session-cache-size", int(0), "20480", "Sessions kept for resuming.").inert(NO_TLS),
        row("tls-session-cache-timeout", int(0), "300", "Seconds a session is kept.").inert(NO_TLS),
        row(
            "max-new-tls-connections-per-cycle",
            between(1, 1000),
            "1",
            "TLS connections a worker accepts in one turn.",
        )
        .inert(NO_TLS),
    ],
};
