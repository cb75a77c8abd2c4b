//! TLS.

use super::common::{NO_REPLICATION, PORT, between, int};
use crate::config::kind::Kind;
use crate::config::row::{Section, row};

const OUTGOING: &str = "nodes show each other the certificate of clients, and a server opens no other connections";

pub(super) static SECTION: Section = Section {
    title: "TLS",
    rows: &[
        row("tls-port", PORT, "0", "Port to listen on for clients that speak TLS; 0 for none."),
        row(
            "tls-cert-file",
            Kind::OptionalText,
            "",
            "Certificate that clients and other nodes are shown, followed by any intermediate certificates (PEM).",
        ),
        row("tls-key-file", Kind::OptionalText, "", "Private key of the certificate (PEM)."),
        row(
            "tls-key-file-pass",
            Kind::OptionalText,
            "",
            "Password of the private key, if that is encrypted (PKCS #8).",
        )
        .sensitive(),
        row("tls-client-cert-file", Kind::OptionalText, "", "Certificate for outgoing connections.").inert(OUTGOING),
        row("tls-client-key-file", Kind::OptionalText, "", "Private key for outgoing connections.").inert(OUTGOING),
        row("tls-client-key-file-pass", Kind::OptionalText, "", "Password of that key.").sensitive().inert(OUTGOING),
        row("tls-dh-params-file", Kind::OptionalText, "", "Diffie-Hellman parameters.")
            .inert("keys are agreed on by elliptic curves only"),
        row(
            "tls-ca-cert-file",
            Kind::OptionalText,
            "",
            "Authorities that sign the certificates of clients and of all nodes (PEM). This file, certificate and key \
             are read again when they change.",
        ),
        row("tls-ca-cert-dir", Kind::OptionalText, "", "Directory whose files hold such certificates."),
        row(
            "tls-auth-clients",
            Kind::Enum(&["no", "yes", "optional"]),
            "yes",
            "Whether clients need a certificate. With `optional` a certificate that a client shows must be good.",
        ),
        row(
            "tls-auth-clients-user",
            Kind::Enum(&["cn", "off"]),
            "off",
            "Part of a client's certificate that names its user: the common name (`CN`), or none.",
        ),
        row("tls-replication", Kind::Bool, "no", "Whether replication links use TLS.").inert(NO_REPLICATION),
        row(
            "tls-cluster",
            Kind::Bool,
            "no",
            "Whether nodes speak TLS 1.3 with each other. Both sides show certificates. All nodes must have the \
             same value, which cannot change while they run.",
        ),
        row(
            "tls-protocols",
            Kind::OptionalText,
            "",
            "Versions that clients may speak: `TLSv1.2`, `TLSv1.3`, or both, as when it is empty.",
        ),
        row(
            "tls-ciphers",
            Kind::OptionalText,
            "",
            "Cipher suites of TLS 1.2 that clients may use, by OpenSSL's names; all that are there when it is empty.",
        ),
        row(
            "tls-ciphersuites",
            Kind::OptionalText,
            "",
            "Cipher suites of TLS 1.3 that clients may use; all that are there when it is empty.",
        ),
        row("tls-prefer-server-ciphers", Kind::Bool, "no", "Choose the cipher by the server's order."),
        row("tls-session-caching", Kind::Bool, "yes", "Whether clients may resume sessions."),
        row("tls-session-cache-size", int(0), "20480", "Sessions kept for resuming; 0 for as many as the default."),
        row("tls-session-cache-timeout", int(0), "300", "Seconds for which a session is kept."),
        row(
            "max-new-tls-connections-per-cycle",
            between(1, 1000),
            "1",
            "Steps of TLS handshakes that a worker takes in one turn.",
        ),
    ],
};
