//! The exporter of spans by OTLP over HTTP, set up by the standard variables of the environment
//! (<https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>). The exporter
//! itself reads those of the address, the headers and the service.

use std::env;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    ExporterBuildError, OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TIMEOUT,
    OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
    OTEL_EXPORTER_OTLP_TRACES_TIMEOUT, Protocol, RetryPolicy, SpanExporter, WithExportConfig as _,
    WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;

use crate::http_client::http_client;
use schedd_schedule::names::NodeName;

const DISABLED: &str = "OTEL_SDK_DISABLED";
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
const SERVICE: &str = "OTEL_SERVICE_NAME";
/// The wait before a batch is sent again. It doubles with each try.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// The reason why there is no exporter, although the environment names an endpoint.
#[derive(Debug, thiserror::Error)]
pub(super) enum TraceSetupError {
    #[error("the HTTP client cannot be built: {0}")]
    Client(#[from] reqwest::Error),
    #[error("the OTEL_ variables of the environment cannot be used: {0}")]
    Exporter(#[from] ExporterBuildError),
}

/// Returns the exporter of the spans of `node`. Returns `None` if the environment names no endpoint,
/// or switches traces off.
pub(super) fn from_env(
    namespace: &str,
    node: &NodeName,
) -> Option<Result<SpanExporter, TraceSetupError>> {
    let value = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let has_endpoint = [OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT]
        .into_iter()
        .any(|name| value(name).is_some());
    let is_disabled = value(DISABLED).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let is_other = value(EXPORTER).is_some_and(|value| value != "otlp");
    let is_on = has_endpoint && !is_disabled && !is_other;
    is_on.then(|| build(namespace, node, value(SERVICE).is_some()))
}

/// Returns the longest time of a request. The exporter tries no longer than this.
fn timeout() -> Duration {
    [OTEL_EXPORTER_OTLP_TRACES_TIMEOUT, OTEL_EXPORTER_OTLP_TIMEOUT]
        .into_iter()
        .find_map(|name| env::var(name).ok()?.parse().ok())
        .map_or(OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT, Duration::from_millis)
}

fn build(
    namespace: &str,
    node: &NodeName,
    has_service: bool,
) -> Result<SpanExporter, TraceSetupError> {
    let client = http_client(|builder| builder.timeout(timeout()))?;
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_retry_policy(
            RetryPolicy::recommended()
                .with_max_retries(5)
                .with_initial_delay(TRY_AGAIN)
                .with_max_delay(TRY_AGAIN * 8),
        )
        .with_protocol(Protocol::HttpBinary)
        .build()?;
    // The attributes of OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME come from the builder.
    let mut resource = Resource::builder().with_attributes([
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", node.to_string()),
        KeyValue::new("schedd.namespace", namespace.to_owned()),
    ]);
    if !has_service {
        resource = resource.with_service_name("schedd");
    }
    exporter.set_resource(&resource.build());
    Ok(exporter)
}
