//! The mail of cron as notifications of a job: `MAILTO` becomes `on_failure` and `on_success`.

/// The addresses of `MAILTO`. Without addresses, no mail is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MailNotice {
    addresses: Vec<String>,
}

impl MailNotice {
    /// Parses the value of `MAILTO`: addresses with commas between them. Fails for an
    /// address that cron would refuse as unsafe.
    pub(super) fn read(value: &str) -> Result<Self, String> {
        let addresses: Vec<String> = value
            .split([',', ' ', '\t'])
            .filter(|address| !address.is_empty())
            .map(str::to_owned)
            .collect();
        let is_safe = |address: &String| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"@._%+-=:".contains(&byte);
            !address.starts_with('-') && address.bytes().all(is_plain)
        };
        if let Some(bad) = addresses.iter().find(|address| !is_safe(address)) {
            return Err(format!("{bad:?} is not an address that cron would send mail to"));
        }
        Ok(Self { addresses })
    }

    /// Returns the rule that sends no mail.
    pub(super) fn none() -> Self {
        Self { addresses: Vec::new() }
    }

    /// Returns true if there is an address.
    pub(super) fn is_sent(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// Returns the shell line that sends the mail about a run that failed.
    pub(super) fn on_failure(&self) -> String {
        // An address may have a %, which printf would read.
        let to = self.addresses.join(", ").replace('%', "%%");
        let args = self.addresses.join(" ");
        format!(
            "printf 'To: {to}\\nSubject: %s %s\\n\\n%s\\n\\n%s\\n' \"$SCHEDD_ABOUT_JOB\" \"$SCHEDD_ABOUT_STATE\" \
             \"$SCHEDD_ABOUT_TEXT\" \"$SCHEDD_ABOUT_OUTPUT\" | /usr/sbin/sendmail -i -- {args}"
        )
    }

    /// Returns the shell line that sends the mail about a run that succeeded, if it printed a text.
    pub(super) fn on_success(&self) -> String {
        format!("[ -z \"$SCHEDD_ABOUT_OUTPUT\" ] || {}", self.on_failure())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_mailto_are_those_of_the_mail() {
        let mail = MailNotice::read("joe@example.com, root").unwrap();
        let line = mail.on_failure();
        assert!(line.starts_with("printf 'To: joe@example.com, root\\nSubject: "), "{line}");
        assert!(line.ends_with("| /usr/sbin/sendmail -i -- joe@example.com root"), "{line}");
        assert!(mail.on_success().starts_with("[ -z \"$SCHEDD_ABOUT_OUTPUT\" ] || printf "));
        let odd = MailNotice::read("a%b@example.com").unwrap().on_failure();
        assert!(odd.contains("To: a%%b@") && odd.ends_with("-- a%b@example.com"), "{odd}");
        assert_eq!(MailNotice::read(" "), Ok(MailNotice::none()));
        for bad in ["-oQ/tmp", "a;b", "`id`", "$HOME", "a'b"] {
            assert!(MailNotice::read(bad).is_err(), "{bad}");
        }
    }
}
