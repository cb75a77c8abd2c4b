//! The configuration that the package installs starts a server.

use std::path::Path;

use crate::support::Launched;

#[test]
fn the_configuration_of_the_package_starts_a_server() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/holdfast.conf");
    let server = Launched::with_file(&file, &[]).unwrap();
    let target = ["-p", &server.port.to_string()].map(str::to_owned);
    let ping = std::process::Command::new(env!("CARGO_BIN_EXE_holdfast")).arg("ping").args(target).output().unwrap();
    assert!(ping.status.success() && ping.stdout == b"PONG\n", "{ping:?}");
}
