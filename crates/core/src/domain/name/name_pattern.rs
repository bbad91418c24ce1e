//! Patterns for names, as in `schedctl list PATTERN`: `*` stands for any characters and `?` for one
//! character.

/// A pattern for names of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern(String);

impl NamePattern {
    /// Returns the pattern with this text.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the pattern as text if it matches only this name.
    pub fn as_name(&self) -> Option<&str> {
        Some(self.0.as_str()).filter(|text| !text.contains(['*', '?']))
    }

    /// Returns true if the whole name matches the pattern.
    pub fn matches(&self, name: &str) -> bool {
        // After a mismatch the last `*` takes one more character, so no recursion is needed.
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut at, mut in_name, mut star) = (0, 0, None);
        while in_name < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at + 1, in_name));
                    at += 1;
                }
                Some(letter) if *letter == b'?' || *letter == name[in_name] => {
                    at += 1;
                    in_name += 1;
                }
                _ => match star {
                    Some((after, from)) => {
                        star = Some((after, from + 1));
                        (at, in_name) = (after, from + 1);
                    }
                    None => return false,
                },
            }
        }
        pattern[at..].iter().all(|letter| *letter == b'*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names() {
        for (pattern, name, wanted) in [
            ("backup", "backup", true),
            ("backup", "backup-db", false),
            ("backup*", "backup", true),
            ("*-db", "backup-db", true),
            ("*-db", "backup-dbs", false),
            ("b*-*b", "backup-a-db", true),
            ("ba?kup", "backup", true),
            ("ba?", "ba", false),
            ("*", "a", true),
            ("a*b*c", "abbcbc", true),
            ("a*b*c", "abbcb", false),
            ("backup/*", "backup/on_failure", true),
        ] {
            assert_eq!(NamePattern::new(pattern).matches(name), wanted, "{pattern} {name}");
        }
    }
}
