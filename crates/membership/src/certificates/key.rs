//! Private keys, also those that a password encrypts (PKCS #8, RFC 5958; PBES2, RFC 8018).

use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";
/// A line of the form that OpenSSL wrote before PKCS #8.
const OLD: &str = "Proc-Type: 4,ENCRYPTED";

/// The private key in a file's contents.
///
/// # Errors
/// Why there is none that can be used.
pub fn private(bytes: &[u8], password: Option<&[u8]>) -> Result<PrivateKeyDer<'static>, String> {
    let text = String::from_utf8_lossy(bytes);
    if let Some(encrypted) = encrypted(&text) {
        return decrypted(encrypted, password);
    }
    if text.contains(OLD) {
        return Err(
            "the key is encrypted in an old form; PKCS #8 is needed (`openssl pkcs8 -topk8` makes it)".to_owned()
        );
    }
    PrivateKeyDer::from_pem_slice(bytes).map_err(|_| "no private key in PEM".to_owned())
}

fn encrypted(text: &str) -> Option<&str> {
    let from = &text[text.find(BEGIN)?..];
    let end = from.find(END)? + END.len();
    from.get(..end)
}

fn decrypted(pem: &str, password: Option<&[u8]>) -> Result<PrivateKeyDer<'static>, String> {
    let Some(password) = password else {
        return Err("the key is encrypted, and there is no password for it (`tls-key-file-pass`)".to_owned());
    };
    let (_, document) = SecretDocument::from_pem(pem).map_err(|why| format!("no encrypted key in PEM: {why}"))?;
    let sealed = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes())
        .map_err(|why| format!("the key is encrypted in a form that is not PBES2: {why}"))?;
    let opened =
        sealed.decrypt(password).map_err(|why| format!("the password (tls-key-file-pass) does not open it: {why}"))?;
    Ok(PrivatePkcs8KeyDer::from(opened.as_bytes().to_vec()).into())
}

#[cfg(test)]
mod tests {
    use super::private;

    /// Made by `openssl genpkey -algorithm ED25519 | openssl pkcs8 -topk8 -v2 aes256 -passout pass:1234`.
    const SEALED: &str = include_str!("encrypted_key.pem");

    #[test]
    fn an_encrypted_key_opens_by_its_password_alone() {
        assert!(private(SEALED.as_bytes(), Some(b"1234")).is_ok());
        let wrong = private(SEALED.as_bytes(), Some(b"12345")).unwrap_err();
        assert!(wrong.contains("does not open it"), "{wrong}");
        let none = private(SEALED.as_bytes(), None).unwrap_err();
        assert!(none.contains("there is no password"), "{none}");
        // Text before the key, as some tools write it, is no harm. A cut key is.
        assert!(private(format!("Bag Attributes\n{SEALED}").as_bytes(), Some(b"1234")).is_ok());
        let cut = SEALED.replace('M', "");
        assert!(private(cut.as_bytes(), Some(b"1234")).is_err());
        assert_eq!(private(b"nothing", None).unwrap_err(), "no private key in PEM");
    }
}
