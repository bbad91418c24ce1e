//! The resources that an attempt used, in the compact form of a run's record.
//!
//! The record of a run has one field for all numbers, because memory for each run matters: Redis
//! stores a hash compactly only while each of its values has at most 64 bytes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The resources that the processes of an attempt used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResourceUse {
    /// The processor time in user mode, in microseconds.
    pub user_us: u64,
    /// The processor time in the kernel, in microseconds.
    pub system_us: u64,
    /// The peak memory, in KiB.
    pub peak_kib: u64,
    /// The bytes read from disks.
    pub read_bytes: u64,
    /// The bytes written to disks.
    pub written_bytes: u64,
}

impl ResourceUse {
    /// Returns the processor time in user mode.
    pub fn user(&self) -> Duration {
        Duration::from_micros(self.user_us)
    }

    /// Returns the processor time in the kernel.
    pub fn system(&self) -> Duration {
        Duration::from_micros(self.system_us)
    }

    /// Returns the processor time in user mode and in the kernel together.
    pub fn cpu(&self) -> Duration {
        self.user().saturating_add(self.system())
    }

    /// Returns the peak memory in bytes.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_kib.saturating_mul(1024)
    }
}

impl fmt::Display for ResourceUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user_us, system_us, peak_kib, read_bytes, written_bytes } = self;
        write!(f, "{user_us} {system_us} {peak_kib} {read_bytes} {written_bytes}")
    }
}

/// The error for a text that does not have the five numbers of a [`ResourceUse`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the resources of an attempt are not five whole numbers")]
pub struct ResourceUseError;

impl FromStr for ResourceUse {
    type Err = ResourceUseError;

    fn from_str(text: &str) -> Result<Self, ResourceUseError> {
        let numbers: Result<Vec<u64>, _> = text.split(' ').map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[user_us, system_us, peak_kib, read_bytes, written_bytes]) => {
                Ok(Self { user_us, system_us, peak_kib, read_bytes, written_bytes })
            }
            _ => Err(ResourceUseError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_read_back_from_their_text() {
        let used = ResourceUse {
            user_us: 3_600_000_000,
            system_us: 7,
            peak_kib: 4_194_304,
            read_bytes: 1 << 40,
            written_bytes: 0,
        };
        assert_eq!(used.to_string().parse(), Ok(used));
        assert!(used.to_string().len() <= 64);
        for bad in ["", "1 2 3 4", "1 2 3 4 5 6", "1 2 3 4 -5", "1 2 3 4 x"] {
            assert_eq!(bad.parse::<ResourceUse>(), Err(ResourceUseError), "{bad}");
        }
    }
}
