//! A web service that adds jobs in its requests, and executes them in the same process.
//!
//! `cargo run --example axum_service -- redis://127.0.0.1:6379 127.0.0.1:3000`

use std::error::Error;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use schedd::{Add, Client, ClientError, Run, Worker};
use tokio::net::TcpListener;

async fn welcome(user: String, run: Run) -> schedd::Result<()> {
    run.print(format_args!("welcome, {user}"));
    Ok(())
}

/// `POST /users/NAME`: answers when the job is stored, and does not wait for its run.
async fn sign_up(
    State(client): State<Client>,
    Path(user): Path<String>,
) -> Result<(StatusCode, String), (StatusCode, String)> {
    // The same request again adds no second job.
    let add = Add::to("welcome", &user).unique(&format!("welcome-{user}")).if_absent();
    match client.add(add).await {
        Ok(added) => Ok((StatusCode::ACCEPTED, added.job().name.clone())),
        Err(error @ ClientError::Invalid(_)) => Err((StatusCode::BAD_REQUEST, error.to_string())),
        Err(error) => Err((StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
    }
}

/// Serves requests and takes runs until `stop` resolves. Then both end in order: no request is cut
/// off, and running handlers finish.
pub(crate) async fn serve(
    client: Client,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Box<dyn Error>> {
    let worker = Worker::on(client.clone()).handle("welcome", welcome).start().await?;
    let app = Router::new().route("/users/{name}", post(sign_up)).with_state(client);
    axum::serve(listener, app).with_graceful_shutdown(stop).await?;
    worker.stop().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: axum_service REDIS_URL ADDRESS";
    let (url, address) = (args.next().ok_or(usage)?, args.next().ok_or(usage)?);
    let ctrl_c = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    serve(Client::connect(&url).await?, TcpListener::bind(address).await?, ctrl_c).await
}
