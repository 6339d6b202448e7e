//! Identifiers of communicators: who makes one says by it whose collectives run.

use std::ffi::c_char;
use std::io::Read as _;

use super::sys::ncclUniqueId;
use crate::base::error::{Error, ErrorKind, Result};

/// What our identifiers begin with; a library's begin with an address or a random number.
const MARK: [u8; 16] = *b"candle-rocm comm";

/// Random bytes that name a communicator of ours.
pub(super) type Token = [u8; 16];

/// A new identifier of ours.
///
/// # Errors
/// The system has no random numbers.
pub(super) fn new() -> Result<ncclUniqueId> {
    let mut internal = [0; 128];
    let bytes = MARK.into_iter().chain(new_token()?);
    for (place, byte) in internal.iter_mut().zip(bytes) {
        *place = byte as c_char;
    }
    Ok(ncclUniqueId { internal })
}

/// Random bytes.
///
/// # Errors
/// The system has none.
pub(super) fn new_token() -> Result<Token> {
    let mut token = Token::default();
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut token))
        .map_err(|error| {
            Error::new(
                ErrorKind::Runtime,
                format!("reading random numbers from /dev/urandom: {error}"),
            )
        })?;
    Ok(token)
}

/// The token of an identifier of ours.
pub(super) fn token(id: &ncclUniqueId) -> Option<Token> {
    let bytes = id.internal.map(|byte| byte as u8);
    let (mark, rest) = bytes.split_at(MARK.len());
    let token = Token::try_from(&rest[..16]).ok()?;
    (mark == MARK).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_known_by_their_bytes() {
        let (one, other) = (new().unwrap(), new().unwrap());
        assert!(token(&one).is_some());
        assert_ne!(token(&one), token(&other));
        assert_eq!(token(&ncclUniqueId { internal: [7; 128] }), None);
    }
}
