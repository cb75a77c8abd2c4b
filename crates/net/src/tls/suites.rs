//! Versions and cipher suites by the names that OpenSSL gives them (`tls-protocols`, `tls-ciphers`,
//! `tls-ciphersuites`). There are those that encrypt and authenticate in one (AEAD) with keys agreed on anew for each
//! connection; others are refused by name.

use rustls::crypto::CryptoProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion};

/// OpenSSL's names of the suites of TLS 1.2.
const OLDER: [(&str, CipherSuite); 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
];

/// The suites of TLS 1.3.
const NEWER: [(&str, CipherSuite); 3] = [
    ("TLS_AES_256_GCM_SHA384", CipherSuite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_AES_128_GCM_SHA256", CipherSuite::TLS13_AES_128_GCM_SHA256),
];

/// Words of OpenSSL for sets that hold all of ours.
const ALL: [&str; 5] = ["DEFAULT", "ALL", "HIGH", "ECDHE", "EECDH"];

/// The versions that `tls-protocols` names.
///
/// # Errors
/// A word names no version, or one that is not supported.
pub fn versions(text: &[u8]) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let text = String::from_utf8_lossy(text);
    let (mut found, mut named) = (Vec::new(), false);
    for word in text.split_ascii_whitespace() {
        named = true;
        found.push(match word.to_ascii_lowercase().as_str() {
            "tlsv1.3" => &TLS13,
            "tlsv1.2" => &TLS12,
            "tlsv1" | "tlsv1.1" => {
                return Err(format!("tls-protocols: {word} is not supported, because it is not safe"));
            }
            _ => {
                return Err(format!("Invalid tls-protocols specified: {word}. Use 'TLSv1.2', 'TLSv1.3', or both."));
            }
        });
    }
    Ok(if named { found } else { vec![&TLS13, &TLS12] })
}

/// Leaves the suites that `tls-ciphers` and `tls-ciphersuites` name, in their order.
///
/// # Errors
/// A name of no suite that is there.
pub fn choose(provider: &mut CryptoProvider, older: &[u8], newer: &[u8]) -> Result<(), String> {
    let mut chosen = named("tls-ciphersuites", newer, &NEWER)?;
    chosen.extend(named("tls-ciphers", older, &OLDER)?);
    let present: Vec<SupportedCipherSuite> = std::mem::take(&mut provider.cipher_suites);
    let find = |wanted: &CipherSuite| present.iter().find(|suite| suite.suite() == *wanted).copied();
    provider.cipher_suites = chosen.iter().filter_map(find).collect();
    Ok(())
}

fn named(setting: &str, text: &[u8], known: &[(&str, CipherSuite)]) -> Result<Vec<CipherSuite>, String> {
    let text = String::from_utf8_lossy(text);
    let words: Vec<&str> = text.split([':', ',', ' ']).filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        return Ok(known.iter().map(|(_, suite)| *suite).collect());
    }
    let mut chosen: Vec<CipherSuite> = Vec::new();
    for word in words {
        let find =
            |name: &str| known.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, suite)| *suite);
        // A suite that is to be left out need not be there.
        if let Some(name) = word.strip_prefix(['!', '-']) {
            let gone = find(name);
            chosen.retain(|suite| Some(*suite) != gone);
            continue;
        }
        if word.starts_with('@') {
            continue;
        }
        let more: Vec<CipherSuite> = match find(word) {
            Some(suite) => vec![suite],
            None if ALL.contains(&word) => known.iter().map(|(_, suite)| *suite).collect(),
            None => return Err(format!("{setting}: there is no cipher suite {word}")),
        };
        chosen.extend(more.into_iter().filter(|suite| !chosen.contains(suite)).collect::<Vec<_>>());
    }
    if chosen.is_empty() { Err(format!("{setting}: it leaves no cipher suite")) } else { Ok(chosen) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_chosen_by_name_and_others_refused() {
        let all = named("tls-ciphers", b"", &OLDER).unwrap();
        assert_eq!(all.len(), 6);
        assert_eq!(named("tls-ciphers", b"DEFAULT:-AES128-SHA256:!aNULL:@STRENGTH", &OLDER).unwrap(), all);
        let two = b"ECDHE-RSA-AES128-GCM-SHA256:ecdhe-ecdsa-aes128-gcm-sha256";
        assert_eq!(named("tls-ciphers", two, &OLDER).unwrap(), [OLDER[5].1, OLDER[4].1]);
        let why = named("tls-ciphers", b"AES128-SHA", &OLDER).unwrap_err();
        assert_eq!(why, "tls-ciphers: there is no cipher suite AES128-SHA");
        assert!(named("tls-ciphersuites", b"TLS_AES_128_CCM_SHA256", &NEWER).is_err());
        assert!(named("tls-ciphers", b"ECDHE-RSA-AES128-GCM-SHA256:-ECDHE-RSA-AES128-GCM-SHA256", &OLDER).is_err());
        let mut provider = rustls::crypto::ring::default_provider();
        choose(&mut provider, two, b"TLS_AES_128_GCM_SHA256").unwrap();
        assert_eq!(provider.cipher_suites.len(), 3);
    }

    #[test]
    fn versions_are_two() {
        let names = |text: &[u8]| versions(text).map(|all| all.iter().map(|one| one.version).collect::<Vec<_>>());
        let (older, newer) = (rustls::ProtocolVersion::TLSv1_2, rustls::ProtocolVersion::TLSv1_3);
        assert_eq!(names(b"").unwrap(), [newer, older]);
        assert_eq!(names(b" tlsv1.2 ").unwrap(), [older]);
        assert!(names(b"TLSv1.1 TLSv1.2").unwrap_err().contains("TLSv1.1 is not supported"));
        assert!(names(b"SSLv3").unwrap_err().starts_with("Invalid tls-protocols"));
    }
}
