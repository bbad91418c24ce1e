//! The files that pages need besides their HTML. They are part of the program. The address of a file
//! has the hash of its content, so that a browser may keep it for ever.

use std::sync::{Arc, LazyLock};

use super::gzip::GzipOnce;

/// The files: name, content type, content.
const FILES: [(&str, &str, &[u8]); 5] = [
    ("style.css", "text/css; charset=utf-8", include_bytes!("style.css")),
    ("live.js", "text/javascript; charset=utf-8", include_bytes!("live.js")),
    ("keys.js", "text/javascript; charset=utf-8", include_bytes!("keys.js")),
    ("log.js", "text/javascript; charset=utf-8", include_bytes!("log.js")),
    ("icon.svg", "image/svg+xml", include_bytes!("icon.svg")),
];

/// A file of the dashboard.
#[derive(Debug)]
pub(crate) struct Asset {
    /// The name of the file in its address: the name, with the hash of the content.
    hashed_name: String,
    name: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) content: &'static [u8],
    compressed: GzipOnce,
}

impl Asset {
    /// Returns the content in compressed form.
    pub(crate) fn compressed(&self) -> Option<Arc<[u8]>> {
        self.compressed.of(self.content)
    }
}

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let asset = |(name, content_type, content): (&'static str, _, &'static [u8])| {
        let hash = sha1_smol::Sha1::from(content).digest().to_string();
        let (stem, end) = name.split_once('.').unwrap_or((name, ""));
        let hashed_name = format!("{stem}-{}.{end}", &hash[..12]);
        Asset { hashed_name, name, content_type, content, compressed: GzipOnce::default() }
    };
    FILES.into_iter().map(asset).collect()
});

/// Returns the asset with this name in its address, or `None` if there is none with this hash.
pub(crate) fn asset_named(hashed_name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.hashed_name == hashed_name)
}

/// Returns the path of an asset, without the path before all routes.
pub(super) fn asset_path(name: &str) -> String {
    let asset = ASSETS.iter().find(|asset| asset.name == name);
    format!("/assets/{}", asset.map_or(name, |asset| asset.hashed_name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_found_by_the_path_that_pages_link_to() {
        for (name, _, content) in FILES {
            let path = asset_path(name);
            let asset = asset_named(path.strip_prefix("/assets/").unwrap()).unwrap();
            assert_eq!(asset.content, content, "{path}");
        }
        assert!(asset_named("style.css").is_none());
    }
}
