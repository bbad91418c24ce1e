//! A program with several handlers, a state that they share, and two queues.
//!
//! `cargo run --example many_handlers -- redis://127.0.0.1:6379`

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use schedd::{Add, Again, Client, Run, Stop, Worker};
use serde::{Deserialize, Serialize};

/// What all handlers share: connections, settings, counters.
#[derive(Default)]
pub(crate) struct App {
    mails: AtomicU32,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Mail {
    pub(crate) to: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Charge {
    pub(crate) customer: u32,
    pub(crate) cents: u32,
}

async fn send_mail(mail: Mail, run: Run<App>) -> schedd::Result<()> {
    if !mail.to.contains('@') {
        return Err(Stop::because("the mail has no address"));
    }
    let number = run.state().mails.fetch_add(1, Ordering::Relaxed) + 1;
    run.print(format_args!("mail {number} to {}", mail.to));
    Ok(())
}

async fn charge(charge: Charge, run: Run<App>) -> schedd::Result<()> {
    if charge.cents == 0 {
        // The price is not known yet. This is no failure.
        return Err(Again::after(Duration::from_secs(60)));
    }
    // A bank that gets this key with each request refuses to charge twice.
    run.print(format_args!("{} cents, key {}", charge.cents, run.idempotency_key()));
    let receipt = Mail { to: format!("customer{}@example.org", charge.customer) };
    run.client().add(Add::to("send-mail", &receipt).queue("mail")).await?;
    Ok(())
}

pub(crate) fn worker(client: Client) -> Worker<App> {
    Worker::on(client)
        .queue("mail", 20)
        .queue("billing", 4)
        .state(App::default())
        .handle("send-mail", send_mail)
        .handle("charge", charge)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: many_handlers REDIS_URL")?;
    let ctrl_c = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    worker(Client::connect(&url).await?).run_until(ctrl_c).await?;
    Ok(())
}
