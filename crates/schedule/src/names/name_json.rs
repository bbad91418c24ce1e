//! Names and run ids in JSON: each is its text.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{JobName, QueueName, RunId};

macro_rules! text_in_json {
    ($($name:ident),+) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )+};
}

text_in_json!(JobName, QueueName, RunId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_its_text_in_json_and_is_checked_when_it_is_read() {
        let run: RunId = serde_json::from_str("\"backup@1780000000000~ab\"").unwrap();
        assert_eq!(serde_json::to_string(&run).unwrap(), "\"backup@1780000000000~ab\"");
        assert!(serde_json::from_str::<JobName>("\"a b\"").is_err());
        assert!(serde_json::from_str::<QueueName>("1").is_err());
    }
}
