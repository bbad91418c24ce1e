//! The pattern of `list PATTERN`: the name of a job, in which `*` stands for any characters and `?`
//! for one character.

/// A pattern for names of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamePattern(String);

impl NamePattern {
    pub(super) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns true if the whole name matches the pattern.
    pub(super) fn matches(&self, name: &str) -> bool {
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
