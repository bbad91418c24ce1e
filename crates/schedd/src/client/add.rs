//! The definition of a job that a program adds.

use std::time::{Duration, SystemTime};

use schedd_core::config::{NamedJob, job_from_value};
use schedd_schedule::time::duration::format_duration;
use schedd_schedule::time::zone::Zone;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::client_error::ClientError;
use crate::instants::text_of;

/// The keys that give a job its time. A job without such a key is due at once.
const TIMES: [&str; 13] = [
    "after",
    "after_any",
    "after_failed",
    "after_finished",
    "at",
    "calendar",
    "cron",
    "delay",
    "every",
    "in",
    "manual",
    "rrule",
    "schedules",
];

/// A job to add: its handler, its payload, its time and its rules.
///
/// Without a time the job is due at once. The values are those of the keys of a job in a jobs file
/// (`docs/jobs-toml.md`), with the same bounds and the same messages.
///
/// ```
/// use std::time::Duration;
///
/// use schedd::Add;
///
/// let mail = Add::to("send-mail", &("ann@example.org", "welcome"))
///     .queue("mail")
///     .in_(Duration::from_secs(600))
///     .unique("welcome-42")
///     .retries(3);
/// # let _ = mail;
/// ```
#[derive(Debug, Clone)]
#[must_use = "a job is added by Client::add"]
pub struct Add {
    keys: Map<String, Value>,
    /// The error of a value that cannot be written as JSON. `Client::add` reports the error.
    unreadable: Option<String>,
    if_exists: IfExists,
}

/// The action if a job of the wanted name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfExists {
    /// The add is refused.
    Refuse,
    /// The job stays as it is.
    Keep,
    /// The job gets the new definition.
    Replace,
}

impl Add {
    /// Creates a job whose runs are the work of `handler`. Each run gets `payload`, as JSON of at
    /// most 256 KiB.
    ///
    /// ```
    /// # use schedd::Add;
    /// #[derive(serde::Serialize)]
    /// struct Mail {
    ///     to: String,
    /// }
    ///
    /// let add = Add::to("send-mail", &Mail { to: "ann@example.org".to_owned() });
    /// # let _ = add;
    /// ```
    pub fn to(handler: &str, payload: &impl Serialize) -> Self {
        let new = Self { keys: Map::new(), unreadable: None, if_exists: IfExists::Refuse };
        new.set("handler", handler).set("payload", payload)
    }

    /// Sets any key of `[jobs.NAME]`, such as `overlap` or `must_start_within`. A later value
    /// replaces an earlier value.
    ///
    /// ```
    /// # use schedd::Add;
    /// let add = Add::to("report", &()).cron("0 7 * * *").set("overlap", "queue");
    /// # let _ = add;
    /// ```
    pub fn set(mut self, key: &str, value: impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => {
                self.keys.insert(key.to_owned(), value);
            }
            Err(error) => self.unreadable = Some(format!("{key}: {error}")),
        }
        self
    }

    /// Sets `key` in the table `table`, such as `limit` of `retry`.
    fn set_in(mut self, table: &str, key: &str, value: Value) -> Self {
        let inner = self.keys.entry(table).or_insert_with(|| json!({}));
        if let Value::Object(inner) = inner {
            inner.insert(key.to_owned(), value);
        }
        self
    }

    /// Names the job. Without a name it gets a random name.
    ///
    /// ```
    /// # use schedd::Add;
    /// let add = Add::to("report", &()).name("report-7").every(std::time::Duration::from_secs(60));
    /// # let _ = add;
    /// ```
    pub fn name(self, name: &str) -> Self {
        self.set("name", name)
    }

    /// Puts the runs into `queue`. Without it they go into the queue `default`.
    ///
    /// ```
    /// # use schedd::Add;
    /// let add = Add::to("send-mail", &"Ann").queue("mail");
    /// # assert!(format!("{add:?}").contains("mail"));
    /// ```
    pub fn queue(self, queue: &str) -> Self {
        self.set("queue", queue)
    }

    /// Makes the job due once, after `delay` by the clock of Redis.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::Add;
    /// # use std::time::{Duration, SystemTime};
    /// let added = client.add(Add::to("remind", &()).in_(Duration::from_secs(600))).await?;
    /// assert!(added.job().due > Some(SystemTime::now()));
    /// # Ok(())
    /// # });
    /// ```
    pub fn in_(self, delay: Duration) -> Self {
        self.set("in", format_duration(delay))
    }

    /// Makes the job due once, at the time `at`, which must be in the future when the job is added.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::Add;
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// let at = UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    /// let added = client.add(Add::to("remind", &()).at(at)).await?;
    /// assert_eq!(added.job().due, Some(at));
    /// # Ok(())
    /// # });
    /// ```
    pub fn at(mut self, at: SystemTime) -> Self {
        if let Some(text) = text_of(at) {
            return self.set("at", text);
        }
        self.unreadable = Some("at: wanted a time from 1970 to 2099".to_owned());
        self
    }

    /// Makes the job due by a cron expression, in the zone of [`Add::zone`] or of this host.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::Add;
    /// let report = Add::to("report", &()).name("report").cron("0 7 * * *");
    /// assert!(client.add(report).await?.job().due.is_some());
    /// # Ok(())
    /// # });
    /// ```
    pub fn cron(self, expression: &str) -> Self {
        self.set("cron", expression)
    }

    /// Makes the job due at fixed intervals.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::Add;
    /// # use std::time::Duration;
    /// let beat = Add::to("beat", &()).name("beat").every(Duration::from_secs(60));
    /// assert!(client.add(beat).await?.job().due.is_some());
    /// # Ok(())
    /// # });
    /// ```
    pub fn every(self, period: Duration) -> Self {
        self.set("every", format_duration(period))
    }

    /// Gives the job no time. Each of its runs is started by [`Client::run`](crate::Client::run).
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::Add;
    /// let added = client.add(Add::to("rebuild", &()).name("rebuild").manual()).await?;
    /// assert_eq!(added.job().due, None);
    /// # Ok(())
    /// # });
    /// ```
    pub fn manual(self) -> Self {
        self.set("manual", true)
    }

    /// Sets the time zone of the schedule, such as `Europe/Berlin`.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::Add;
    /// let report = Add::to("report", &()).cron("0 7 * * *").zone("Europe/Berlin");
    /// assert!(client.add(report).await.is_ok());
    /// let nowhere = Add::to("report", &()).cron("0 7 * * *").zone("Europe/Atlantis");
    /// assert!(client.add(nowhere).await.is_err());
    /// # Ok(())
    /// # });
    /// ```
    pub fn zone(self, zone: &str) -> Self {
        self.set("tz", zone)
    }

    /// Refuses this job while another job has the unique key `key`. A job has its key until it has
    /// ended. With [`Add::if_absent`] the answer is [`Added::Exists`](crate::Added::Exists).
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::Add;
    /// # use std::time::Duration;
    /// let mail = Add::to("send-mail", &"Ann").in_(Duration::from_secs(60)).unique("welcome-42");
    /// client.add(mail.clone()).await?;
    /// assert!(client.add(mail).await.is_err());
    /// # Ok(())
    /// # });
    /// ```
    pub fn unique(self, key: &str) -> Self {
        self.set("unique", json!({"key": key}))
    }

    /// Refuses this job if a job with the unique key `key` was added within `window`, also if that
    /// job has ended.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::Add;
    /// # use std::time::Duration;
    /// let mail = Add::to("send-mail", &"Ann").unique_for("welcome-42", Duration::from_secs(3600));
    /// client.add(mail.clone()).await?;
    /// assert!(client.add(mail).await.is_err());
    /// # Ok(())
    /// # });
    /// ```
    pub fn unique_for(self, key: &str, window: Duration) -> Self {
        self.set("unique", json!({"key": key, "for": format_duration(window)}))
    }

    /// Lets only the last job with the unique key `key` run: a further add moves the time of the
    /// waiting job.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Add, Added};
    /// # use std::time::Duration;
    /// let index = Add::to("index", &()).in_(Duration::from_secs(30)).debounce("index-7");
    /// client.add(index.clone()).await?;
    /// assert!(matches!(client.add(index).await?, Added::Updated(_)));
    /// # Ok(())
    /// # });
    /// ```
    pub fn debounce(self, key: &str) -> Self {
        self.set("unique", json!({"key": key, "mode": "debounce"}))
    }

    /// Drops further adds with the unique key `key` for `window`.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Add, Added};
    /// # use std::time::Duration;
    /// let alert = Add::to("alert", &()).throttle("disk", Duration::from_secs(900));
    /// client.add(alert.clone()).await?;
    /// assert!(matches!(client.add(alert).await?, Added::Exists(_)));
    /// # Ok(())
    /// # });
    /// ```
    pub fn throttle(self, key: &str, window: Duration) -> Self {
        let window = format_duration(window);
        self.set("unique", json!({"key": key, "mode": "throttle", "for": window}))
    }

    /// Lets at most `limit` runs of all jobs with the concurrency key `key` run at once.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::Add;
    /// let sync = Add::to("sync", &()).key("customer-7", 1);
    /// assert!(client.add(sync).await.is_ok());
    /// # Ok(())
    /// # });
    /// ```
    pub fn key(self, key: &str, limit: u32) -> Self {
        self.set("key", key).set_in("per_key", "limit", limit.into())
    }

    /// Puts the job into `group`, of which one job runs at a time.
    ///
    /// ```
    /// # use schedd::Add;
    /// let add = Add::to("vacuum", &()).group("database");
    /// # assert!(format!("{add:?}").contains("database"));
    /// ```
    pub fn group(self, group: &str) -> Self {
        self.set("group", group)
    }

    /// Sets the number of attempts after a failed first attempt. The waits between them grow
    /// from 10 s.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::Add;
    /// let charge = Add::to("charge", &4711).retries(3);
    /// assert!(client.add(charge).await.is_ok());
    /// # Ok(())
    /// # });
    /// ```
    pub fn retries(self, most: u32) -> Self {
        self.set_in("retry", "limit", most.into())
    }

    /// Sets the wait before the first retry.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::Add;
    /// # use std::time::Duration;
    /// let charge = Add::to("charge", &4711).retries(3).retry_delay(Duration::from_secs(60));
    /// assert!(client.add(charge).await.is_ok());
    /// # Ok(())
    /// # });
    /// ```
    pub fn retry_delay(self, delay: Duration) -> Self {
        self.set_in("retry", "delay", format_duration(delay).into())
    }

    /// Sets the longest time of an attempt.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::Add;
    /// # use std::time::Duration;
    /// let report = Add::to("report", &()).timeout(Duration::from_secs(300));
    /// assert!(client.add(report).await.is_ok());
    /// # Ok(())
    /// # });
    /// ```
    pub fn timeout(self, most: Duration) -> Self {
        self.set("timeout", format_duration(most))
    }

    /// Sets the priority of the runs in their queue, from -10 (last) to 10 (first).
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::Add;
    /// assert!(client.add(Add::to("alert", &()).priority(10)).await.is_ok());
    /// assert!(client.add(Add::to("alert", &()).priority(11)).await.is_err());
    /// # Ok(())
    /// # });
    /// ```
    pub fn priority(self, priority: i8) -> Self {
        self.set("priority", priority)
    }

    /// Makes the add a success if a job of this name, or with this unique key, exists already.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Add, Added};
    /// let digest = Add::to("digest", &()).name("digest").cron("0 7 * * *").if_absent();
    /// client.add(digest.clone()).await?;
    /// assert!(matches!(client.add(digest).await?, Added::Exists(_)));
    /// # Ok(())
    /// # });
    /// ```
    pub fn if_absent(mut self) -> Self {
        self.if_exists = IfExists::Keep;
        self
    }

    /// Gives an existing job of this name the new definition.
    ///
    /// ```
    /// # schedd::testing::block_on(async |bench| {
    /// # let client = bench.client();
    /// # use schedd::{Add, Added};
    /// let digest = || Add::to("digest", &()).name("digest").replace();
    /// client.add(digest().cron("0 7 * * *")).await?;
    /// assert!(matches!(client.add(digest().cron("0 8 * * *")).await?, Added::Updated(_)));
    /// # Ok(())
    /// # });
    /// ```
    pub fn replace(mut self) -> Self {
        self.if_exists = IfExists::Replace;
        self
    }

    pub(super) fn if_exists(&self) -> IfExists {
        self.if_exists
    }

    /// Compiles the job by the rules of `schedctl add`.
    pub(super) fn compile(&self, host_zone: &Zone) -> Result<NamedJob, ClientError> {
        if let Some(why) = &self.unreadable {
            return Err(ClientError::Invalid(why.clone()));
        }
        let mut keys = self.keys.clone();
        if !TIMES.iter().any(|key| keys.contains_key(*key)) {
            keys.insert("in".to_owned(), "0s".into());
        }
        keys.remove("manual");
        job_from_value(&Value::Object(keys), host_zone).map_err(|problems| {
            let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
            ClientError::Invalid(texts.join("; "))
        })
    }
}
