//! The outbox pattern: a job is added if and only if a transaction of the program's own database is
//! committed, although Redis has no part in the transaction.
//!
//! The transaction writes the job into a table of the database, the outbox. A relay adds the jobs
//! in the outbox to Redis, and then deletes them there. If the program dies in between, the relay
//! adds a job again. Its unique key makes this harmless.
//!
//! The database here is redb, an embedded database in pure Rust with real transactions, so that the
//! example needs no server. With another database only the statements differ.
//!
//! `cargo run --example outbox -- redis://127.0.0.1:6379`

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use schedd::{Add, Added, Client};
use serde::{Deserialize, Serialize};

const ORDERS: TableDefinition<'_, u64, &str> = TableDefinition::new("orders");
const OUTBOX: TableDefinition<'_, u64, &str> = TableDefinition::new("outbox");
/// The time for which the relay may be away, and still adds no job twice.
const REMEMBERED: Duration = Duration::from_secs(7 * 86_400);

#[derive(Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) order: u64,
    pub(crate) to: String,
}

pub(crate) struct Shop {
    database: Database,
}

impl Shop {
    pub(crate) fn open(file: &Path) -> Result<Self, Box<dyn Error>> {
        let database = Database::create(file)?;
        let tables = database.begin_write()?;
        tables.open_table(ORDERS)?;
        tables.open_table(OUTBOX)?;
        tables.commit()?;
        Ok(Self { database })
    }

    /// Stores an order together with the job that sends its receipt. An order that is refused leaves
    /// no job.
    pub(crate) fn place(&self, order: u64, goods: &str, to: &str) -> Result<(), Box<dyn Error>> {
        let transaction = self.database.begin_write()?;
        {
            let mut orders = transaction.open_table(ORDERS)?;
            let receipt = serde_json::to_string(&Receipt { order, to: to.to_owned() })?;
            transaction.open_table(OUTBOX)?.insert(order, receipt.as_str())?;
            if orders.insert(order, goods)?.is_some() {
                // The transaction is not committed, so the outbox does not keep the job either.
                return Err(format!("order {order} exists already").into());
            }
        }
        transaction.commit()?;
        Ok(())
    }

    /// Returns the numbers and the payloads of the jobs in the outbox.
    pub(crate) fn waiting(&self) -> Result<Vec<(u64, Receipt)>, Box<dyn Error>> {
        let outbox = self.database.begin_read()?.open_table(OUTBOX)?;
        let mut waiting = Vec::new();
        for entry in outbox.iter()? {
            let (order, receipt) = entry?;
            waiting.push((order.value(), serde_json::from_str(receipt.value())?));
        }
        Ok(waiting)
    }

    fn forget(&self, orders: &[u64]) -> Result<(), Box<dyn Error>> {
        let transaction = self.database.begin_write()?;
        {
            let mut outbox = transaction.open_table(OUTBOX)?;
            for order in orders {
                outbox.remove(order)?;
            }
        }
        transaction.commit()?;
        Ok(())
    }
}

/// Adds the jobs in the outbox, and returns how many were new. A program calls this at intervals,
/// and after each commit. `keeps` leaves the jobs in the outbox, like a program that dies here.
pub(crate) async fn relay(
    shop: &Shop,
    client: &Client,
    keeps: bool,
) -> Result<usize, Box<dyn Error>> {
    let waiting = shop.waiting()?;
    let add = |(order, receipt): &(u64, Receipt)| {
        let key = format!("receipt-{order}");
        Add::to("send-receipt", receipt).unique_for(&key, REMEMBERED).if_absent()
    };
    let results = client.add_all(waiting.iter().map(add)).await?;
    let added: Vec<Added> = results.into_iter().collect::<Result<_, _>>()?;
    if !keeps {
        shop.forget(&waiting.iter().map(|(order, _)| *order).collect::<Vec<_>>())?;
    }
    Ok(added.iter().filter(|added| matches!(added, Added::Created(_))).count())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: outbox REDIS_URL")?;
    let client = Client::connect(&url).await?;
    let shop = Shop::open(&std::env::temp_dir().join("schedd-outbox.redb"))?;
    shop.place(u64::from(std::process::id()), "a book", "ann@example.org")?;
    println!("{} jobs added", relay(&shop, &client, false).await?);
    Ok(())
}
