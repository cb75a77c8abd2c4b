//! For tests: a clock that stands still, certificates, and both ends of a connection without sockets.

use std::path::PathBuf;
use std::sync::Arc;

use node::config::{Settings, Values};
use node::{Clock, MonoNs, UnixMs};

use super::Tls;

#[path = "../../../membership/tests/clusters/certificates.rs"]
pub mod certificates;
#[path = "../../../membership/tests/clusters/tls_client.rs"]
pub mod tls_client;

/// It stands still.
pub struct Still;

impl Clock for Still {
    fn unix_ms(&self) -> UnixMs {
        UnixMs(1)
    }

    fn monotonic_ns(&self) -> MonoNs {
        MonoNs(1)
    }

    fn thread_cpu_ns(&self) -> u64 {
        0
    }
}

/// For no listener.
pub fn off() -> Tls {
    Tls::new(Arc::new(Still))
}

/// A folder with certificates of its own, which is removed with the value.
pub struct Folder(pub PathBuf);

impl Folder {
    /// With a certificate for a server, and its authority.
    pub fn new(name: &str) -> (Folder, certificates::Authority) {
        let path = std::env::temp_dir().join(format!("holdfast-net-{}-{name}", std::process::id()));
        let authority = certificates::Authority::new("authority");
        authority.equip("server", &path);
        (Folder(path), authority)
    }

    /// Settings with these files, and with others.
    pub fn settings(&self, more: &[(&str, &str)]) -> Settings {
        let mut values = Values::default();
        let file = |name: &str| self.0.join(name).display().to_string();
        let (cert, key, ca) = (file("cert.pem"), file("key.pem"), file("ca.pem"));
        let own = [("tls-port", "1"), ("tls-cert-file", &cert), ("tls-key-file", &key), ("tls-ca-cert-file", &ca)];
        own.iter().chain(more).for_each(|(name, value)| values.set(name, value.as_bytes()).unwrap());
        Settings::of(&values)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
