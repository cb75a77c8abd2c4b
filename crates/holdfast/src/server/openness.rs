//! Logs at the start which clients can use the server without a password.

use node::config::{AuthClients, Settings};

/// Words that stand for every address of the machine.
const EVERYWHERE: [&str; 4] = ["*", "0.0.0.0", "::", "::*"];

/// Tells how far the server is open, if a password does not protect it. `is_open`: clients need no login.
pub fn tell(settings: &Settings, is_open: bool) {
    match openness(settings, is_open) {
        None => {}
        Some(Openness::Machine) => tracing::info!(
            "No password is set (`requirepass`): every client on this machine is served, and `protected-mode` refuses all others"
        ),
        Some(Openness::Addresses(addresses)) => tracing::warn!(
            "WARNING: no password is set (`requirepass`) and protected-mode is off: every client that reaches {addresses} is served"
        ),
        Some(Openness::World) => tracing::warn!(
            "WARNING: no password is set (`requirepass`), protected-mode is off, and `bind` names every address: every client that reaches this machine is served"
        ),
    }
}

#[derive(PartialEq, Eq, Debug)]
enum Openness {
    /// To clients on the same machine.
    Machine,
    /// To every client that reaches these addresses.
    Addresses(String),
    /// To every client that reaches the machine.
    World,
}

/// True if clients without a certificate can connect over a network.
fn listens(settings: &Settings) -> bool {
    settings.port != 0 || settings.tls_port != 0 && settings.tls_auth_clients != AuthClients::Yes
}

/// `None`: a login is needed, or nobody can connect over a network.
fn openness(settings: &Settings, is_open: bool) -> Option<Openness> {
    if !is_open || !listens(settings) {
        return None;
    }
    let bare = |address: &str| address.strip_prefix('-').unwrap_or(address).to_owned();
    let addresses: Vec<String> = settings.bind.iter().map(|address| bare(address)).collect();
    Some(match settings.protected_mode {
        true => Openness::Machine,
        false if addresses.iter().any(|address| EVERYWHERE.contains(&address.as_str())) => Openness::World,
        false => Openness::Addresses(addresses.join(" ")),
    })
}

#[cfg(test)]
mod tests {
    use node::config::Values;

    use super::*;

    fn of(given: &[(&str, &str)]) -> Option<Openness> {
        let mut values = Values::default();
        given.iter().for_each(|(name, value)| values.set(name, value.as_bytes()).unwrap());
        let settings = Settings::of(&values);
        openness(&settings, settings.requirepass.is_none())
    }

    #[test]
    fn a_password_or_protected_mode_closes_a_server() {
        assert_eq!(of(&[]), Some(Openness::Machine));
        assert_eq!(of(&[("protected-mode", "no")]), Some(Openness::World));
        let local = [("protected-mode", "no"), ("bind", "127.0.0.1 -::1")];
        assert_eq!(of(&local), Some(Openness::Addresses("127.0.0.1 ::1".into())));
        assert_eq!(of(&[("protected-mode", "no"), ("requirepass", "secret")]), None);
        assert_eq!(of(&[("protected-mode", "no"), ("port", "0")]), None);
        let tls = [("protected-mode", "no"), ("port", "0"), ("tls-port", "7")];
        assert_eq!(of(&tls), None, "a certificate is needed");
        assert_eq!(of(&[tls.as_slice(), &[("tls-auth-clients", "no")]].concat()), Some(Openness::World));
    }
}
