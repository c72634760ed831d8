//! The topics of a comparison. Made with fresh names, so that no run meets the data of another, and deleted
//! when their run is over, so that the disk holds little more than what the consumers read.

use peers_common::{Failure, PARTITIONS};
use rskafka::client::partition::UnknownTopicHandling;
use rskafka::client::{Client, ClientBuilder};
use tokio::runtime::Runtime;

const TIMEOUT_MS: i32 = 30_000;

pub struct Topics {
    runtime: Runtime,
    client: Client,
    made: u32,
    /// Those not yet deleted.
    live: Vec<String>,
}

impl Topics {
    pub fn connect(bootstrap: &str) -> Result<Topics, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(ClientBuilder::new(vec![bootstrap.to_owned()]).build())?;
        Ok(Topics { runtime, client, made: 0, live: Vec::new() })
    }

    /// A new, empty topic of one replica. Returns when every partition has a leader.
    pub fn create(&mut self) -> Result<String, Failure> {
        self.made += 1;
        let topic = format!("peers-{}-{}", std::process::id(), self.made);
        self.runtime.block_on(async {
            let controller = self.client.controller_client()?;
            controller.create_topic(&topic, PARTITIONS, 1, TIMEOUT_MS).await?;
            self.live.push(topic.clone());
            for partition in 0..PARTITIONS {
                self.client
                    .partition_client(&topic, partition, UnknownTopicHandling::Retry)
                    .await?;
            }
            Ok(topic.clone())
        })
    }

    pub fn delete(&mut self, topic: &str) -> Result<(), Failure> {
        self.runtime.block_on(async {
            self.client.controller_client()?.delete_topic(topic, TIMEOUT_MS).await
        })?;
        self.live.retain(|other| other != topic);
        Ok(())
    }

    pub fn delete_all(&mut self) -> Result<(), Failure> {
        for topic in self.live.clone() {
            self.delete(&topic)?;
        }
        Ok(())
    }
}
