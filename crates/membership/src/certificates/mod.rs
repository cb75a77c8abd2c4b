//! Certificates and keys in files, as nodes show them to each other and listeners to clients (`tls-cert-file` and the
//! settings beside it).

mod key;
mod name;
mod signed;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, RootCertStore};

pub use name::{common_name, subject};
pub use signed::SignedBy;

/// Bytes of the longest file of certificates or keys.
const FILE_MAX: u64 = 4 << 20;
/// Files of a directory that are looked at.
const FILES_MAX: usize = 4096;

/// The cryptography.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The files, in PEM, by which a node or a server proves its identity and checks others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Its certificate, and those between it and the authority.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The password of the key, if the key is encrypted.
    pub password: Option<Vec<u8>>,
    /// The authorities that sign the certificates of others.
    pub ca: Option<PathBuf>,
    /// A directory with further ones.
    pub ca_dir: Option<PathBuf>,
}

/// The contents of the files at one moment.
#[derive(PartialEq, Eq)]
pub struct Contents {
    cert: Content,
    key: Content,
    password: Option<Vec<u8>>,
    ca: Vec<Content>,
    /// The settings that name authorities, for messages.
    of_authorities: String,
}

#[derive(PartialEq, Eq)]
struct Content {
    /// Its setting's name and its own.
    name: String,
    bytes: Vec<u8>,
}

impl Content {
    fn of(setting: &str, path: &Path) -> Result<Self, String> {
        let name = format!("{setting} {}", path.display());
        read(path).map(|bytes| Content { name: name.clone(), bytes }).map_err(|why| format!("{name}: {why}"))
    }
}

impl TlsFiles {
    /// The same with paths that no longer depend on the present directory.
    ///
    /// # Errors
    /// The present directory is unknown.
    pub fn absolute(&self) -> Result<Self, String> {
        let absolute = |path: &PathBuf| std::path::absolute(path).map_err(|why| format!("{}: {why}", path.display()));
        Ok(Self {
            cert: absolute(&self.cert)?,
            key: absolute(&self.key)?,
            password: self.password.clone(),
            ca: self.ca.as_ref().map(absolute).transpose()?,
            ca_dir: self.ca_dir.as_ref().map(absolute).transpose()?,
        })
    }

    /// Reads the files.
    ///
    /// # Errors
    /// Which file cannot be read, and why.
    pub fn contents(&self) -> Result<Contents, String> {
        let mut ca = Vec::new();
        let mut settings = Vec::new();
        if let Some(path) = &self.ca {
            ca.push(Content::of("tls-ca-cert-file", path)?);
            settings.push(format!("tls-ca-cert-file {}", path.display()));
        }
        if let Some(path) = &self.ca_dir {
            directory(path, &mut ca)?;
            settings.push(format!("tls-ca-cert-dir {}", path.display()));
        }
        Ok(Contents {
            cert: Content::of("tls-cert-file", &self.cert)?,
            key: Content::of("tls-key-file", &self.key)?,
            password: self.password.clone(),
            ca,
            of_authorities: settings.join(" and "),
        })
    }
}

impl Contents {
    /// The own certificate and its key.
    ///
    /// # Errors
    /// Which of them cannot be used, and why.
    pub fn own(&self) -> Result<CertifiedKey, String> {
        let chain = certificates(&self.cert)?;
        let private = key::private(&self.key.bytes, self.password.as_deref());
        let private = private.map_err(|why| format!("{}: {why}", self.key.name))?;
        let private = provider().key_provider.load_private_key(private);
        let own = CertifiedKey::new(chain, private.map_err(|why| format!("{}: {why}", self.key.name))?);
        own.keys_match().map_err(|why| match why {
            Error::InvalidCertificate(_) => format!("{}: {}", self.cert.name, in_words(&why)),
            _ => format!("{} and {}: {}", self.cert.name, self.key.name, in_words(&why)),
        })?;
        Ok(own)
    }

    /// The authorities; none if no setting names any.
    ///
    /// # Errors
    /// Which of them cannot be used, and why.
    pub fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let mut found = Vec::new();
        for file in &self.ca {
            found.extend(certificates(file)?);
        }
        Ok(found)
    }

    /// The settings that name the authorities.
    pub fn of_authorities(&self) -> &str {
        &self.of_authorities
    }

    /// The setting that names the certificate.
    pub fn of_certificate(&self) -> &str {
        &self.cert.name
    }
}

/// The authorities in a file, a directory, or both, for a client that checks a server.
///
/// # Errors
/// Which file cannot be used, and why.
pub fn authorities(file: Option<&Path>, folder: Option<&Path>) -> Result<RootCertStore, String> {
    let mut found = Vec::new();
    if let Some(path) = file {
        found.push(Content::of("--cacert", path)?);
    }
    if let Some(path) = folder {
        directory(path, &mut found)?;
    }
    let mut roots = RootCertStore::empty();
    for file in &found {
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|why| format!("{}: {}", file.name, in_words(&why)))?;
        }
    }
    Ok(roots)
}

/// The certificate and the key that a client shows.
///
/// # Errors
/// Which file cannot be used, and why.
pub fn own(cert: &Path, key: &Path) -> Result<CertifiedKey, String> {
    let (cert, key) = (Content::of("--cert", cert)?, Content::of("--key", key)?);
    Contents { cert, key, password: None, ca: Vec::new(), of_authorities: String::new() }.own()
}

/// Adds the files of a directory that hold certificates, in the order of their names.
fn directory(path: &Path, found: &mut Vec<Content>) -> Result<(), String> {
    let named = |why: io::Error| format!("tls-ca-cert-dir {}: {why}", path.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(path).map_err(named)? {
        paths.push(entry.map_err(named)?.path());
        if paths.len() > FILES_MAX {
            return Err(format!("tls-ca-cert-dir {}: it has more than {FILES_MAX} files", path.display()));
        }
    }
    paths.sort();
    let before = found.len();
    for path in paths.iter().filter(|path| path.is_file()) {
        let file = Content::of("tls-ca-cert-dir", path)?;
        if file.bytes.windows(BEGIN.len()).any(|piece| piece == BEGIN) {
            found.push(file);
        }
    }
    match found.len() > before {
        true => Ok(()),
        false => Err(format!("tls-ca-cert-dir {}: no file in it has a certificate in PEM", path.display())),
    }
}

/// The first line of a certificate in PEM.
const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Not a pipe, which might never be opened.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn certificates(file: &Content) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&file.bytes).collect();
    let read = read.map_err(|why| format!("{}: {why}", file.name))?;
    if read.is_empty() { Err(format!("{}: no certificate in PEM", file.name)) } else { Ok(read) }
}

/// The fault of a certificate; the library has no names for the most common mistakes.
pub fn in_words(why: &Error) -> String {
    match why {
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "it has expired".to_owned()
        }
        Error::InvalidCertificate(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => {
            "it is not valid yet".to_owned()
        }
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "no authority in tls-ca-cert-file has signed it".to_owned()
        }
        Error::InvalidCertificate(CertificateError::Other(why)) => match why.to_string().as_str() {
            "UnsupportedCertVersion" => {
                "it is of X.509 version 1; version 3 is needed (`openssl x509 -req` without -extfile makes version 1)"
                    .to_owned()
            }
            "CaUsedAsEndEntity" => "it is an authority's own: a node needs another, signed by that".to_owned(),
            other => other.to_owned(),
        },
        other => other.to_string(),
    }
}
