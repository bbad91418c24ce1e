//! axe-core 4.14.1, a checker of accessibility rules. It is a part of the tests only, under its own
//! licence (`tests/axe-core`), so that a checkout without a network has it.

use schedd_programs::secrets::tokens::sha256;

use super::WebScene;

const AXE: &str = include_str!("../../axe-core/axe.min.js");
/// The SHA-256 of the file in the package of this version.
const AXE_SHA256: &str = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c";

/// Checks the page that is open against all rules of axe-core, also those that are advice.
#[track_caller]
pub(super) fn check_rules(scene: &WebScene, page: &str) {
    if scene.browser.value("typeof window.axe") != "object" {
        scene.browser.run(AXE);
    }
    // A wait for the result would need a timer; the driver waits for a promise that is returned.
    let found = scene.browser.run(
        "return axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations.map((rule) => \
         `${rule.id}: ${rule.help}: ${rule.nodes.slice(0, 4).map((node) => node.html + ' ' + node.failureSummary).join(' | ')}`));",
    );
    let found = found.as_array().unwrap();
    assert!(found.is_empty(), "{page}: {found:#?}");
}

#[test]
fn the_checker_of_accessibility_is_the_published_file() {
    assert_eq!(sha256(AXE), AXE_SHA256);
}
