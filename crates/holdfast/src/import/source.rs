//! The source of an import: one file, or the files of a folder that a manifest names.

use rdb::Fault;
use rdb::aof::{File as Named, Files, Manifest, Reader, Step, Tail};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

type Open = Box<dyn FnMut(&Named) -> io::Result<File>>;

/// An RDB file, an append-only file, or several.
pub struct Source {
    kind: Kind,
    /// Every file with its length, in the order of reading.
    files: Vec<(String, u64)>,
}

enum Kind {
    One(Reader<File>),
    Several(Files<Open, File>),
}

impl Source {
    /// Opens a file, a manifest, or a folder with a manifest.
    pub fn open(path: &Path, skip_modules: bool) -> Result<Self, String> {
        let failed = |path: &Path, error: io::Error| format!("cannot read {}: {error}", path.display());
        let manifest = if path.is_dir() { manifest_of(path)? } else { path.to_owned() };
        if manifest.extension().is_none_or(|extension| extension != "manifest") {
            let file = File::open(path).map_err(|error| failed(path, error))?;
            let length = file.metadata().map_err(|error| failed(path, error))?.len();
            let kind = Kind::One(Reader::new(file).skip_foreign(skip_modules));
            return Ok(Self { kind, files: vec![(path.display().to_string(), length)] });
        }
        let text = fs::read(&manifest).map_err(|error| failed(&manifest, error))?;
        let parsed = Manifest::parse(&text).map_err(|error| format!("{}: {error}", manifest.display()))?;
        let folder = manifest.parent().unwrap_or(Path::new("")).to_owned();
        let mut files = Vec::new();
        for file in parsed.files() {
            let path = folder.join(&file.name);
            let length = fs::metadata(&path).map_err(|error| failed(&path, error))?.len();
            files.push((file.name.clone(), length));
        }
        let open: Open = Box::new(move |file| File::open(folder.join(&file.name)));
        Ok(Self { kind: Kind::Several(Files::new(&parsed, open).skip_foreign(skip_modules)), files })
    }

    /// The next step; an error in words for the user.
    pub fn next_step(&mut self) -> Result<Option<Step>, String> {
        match &mut self.kind {
            Kind::One(reader) => {
                reader.next_step().map_err(|error| format!("{}: {error}{}", self.files[0].0, advice(&error)))
            }
            Kind::Several(files) => files.next_step().map_err(|error| format!("{error}{}", advice(&error.error))),
        }
    }

    /// Bytes of all files.
    pub fn len(&self) -> u64 {
        self.files.iter().map(|(_, length)| length).sum()
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        match &self.kind {
            Kind::One(reader) => reader.offset(),
            Kind::Several(files) => match files.position() {
                None => 0,
                Some((name, offset)) => {
                    let before = self.files.iter().take_while(|(file, _)| file != name);
                    before.map(|(_, length)| length).sum::<u64>() + offset
                }
            },
        }
    }

    /// The incomplete end of the last file, once all is read.
    pub fn tail(&self) -> Option<Tail> {
        match &self.kind {
            Kind::One(reader) => reader.tail(),
            Kind::Several(files) => files.tail().map(|(_, tail)| *tail),
        }
    }
}

/// The advice to a user about a fault.
fn advice(error: &rdb::Error) -> &'static str {
    match error.fault {
        Fault::Foreign(_) | Fault::ModuleData(_) => " (--skip-modules passes over such values)",
        _ => "",
    }
}

/// The only manifest of a folder.
fn manifest_of(folder: &Path) -> Result<PathBuf, String> {
    let failed = |error: io::Error| format!("cannot read {}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "manifest") {
            found.push(path);
        }
    }
    match found.as_slice() {
        [manifest] => Ok(manifest.clone()),
        [] => Err(format!("{} has no manifest", folder.display())),
        _ => Err(format!("{} has several manifests: name one", folder.display())),
    }
}
