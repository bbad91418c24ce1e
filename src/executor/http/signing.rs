//! Signatures of requests by Standard Webhooks: an HMAC-SHA256 of an id, the time and the body. The
//! id is the same in each attempt of a run.
//!
//! Invariant: a request that cannot be signed as its job says is not sent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use schedd_core::domain::job::webhook::WebhookSecret;

/// Returns the value of the field `webhook-signature`: one signature of the request for each
/// secret.
pub(super) fn signatures(
    secrets: &[WebhookSecret],
    id: &str,
    timestamp: i64,
    body: &str,
) -> String {
    let signed = format!("{id}.{timestamp}.{body}");
    let sign = |secret: &WebhookSecret| {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.key()), signed.as_bytes());
        format!("v1,{}", STANDARD.encode(tag.as_ref()))
    };
    secrets.iter().map(sign).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_other_implementations() {
        let secret: WebhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let signed = signatures(
            &[secret],
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            "{\"test\": 2432232314}",
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
