//! Files in which the running state survives a restart of the daemon: a list each, beside the
//! socket, and no file for an empty list.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// What an earlier process left; what cannot be read is lost, and said in the log.
pub(super) fn read<T: DeserializeOwned>(file: &Path, what: &str) -> Vec<T> {
    let read = || -> io::Result<Vec<T>> { Ok(serde_json::from_slice(&std::fs::read(file)?)?) };
    read().unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!(file = %file.display(), %error, "{what} lost");
        }
        Vec::new()
    })
}

/// Replaces the file in one step; a failure is said in the log.
pub(super) fn write<T: Serialize>(file: &Path, what: &str, list: &[T]) {
    let write = || -> io::Result<()> {
        if list.is_empty() {
            return match std::fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let mut new = file.as_os_str().to_owned();
        new.push(".new");
        std::fs::write(&new, serde_json::to_vec(list)?)?;
        std::fs::rename(&new, file)
    };
    if let Err(error) = write() {
        tracing::warn!(file = %file.display(), %error, "{what} not saved");
    }
}
