//! Content in the form of `Content-Encoding: gzip`.

use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use flate2::Compression;
use flate2::write::GzEncoder;

/// A content that is compressed at most once, when a reader first asks for it so.
#[derive(Debug, Default)]
pub(super) struct GzipOnce(OnceLock<Option<Arc<[u8]>>>);

impl GzipOnce {
    /// Returns `content`, which is always the same, in compressed form.
    pub(super) fn of(&self, content: &[u8]) -> Option<Arc<[u8]>> {
        self.0.get_or_init(|| gzipped(content)).clone()
    }
}

fn gzipped(content: &[u8]) -> Option<Arc<[u8]>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).ok()?;
    encoder.finish().ok().map(Arc::from)
}
