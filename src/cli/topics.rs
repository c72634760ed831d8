//! `ottla topics`: create, list, delete.

use std::fmt::Write as _;

use super::args::{ClusterArgs, TopicsAction, TopicsArgs};
use super::output::Output;
use super::{End, report};
use crate::admin::Topic;
use crate::client::Client;
use crate::error::Result;

/// What the broker takes as its own default.
const BROKER_DEFAULT: i32 = -1;

pub(super) fn run(args: TopicsArgs) -> Result<End> {
    match args.action {
        TopicsAction::Create {
            cluster,
            topics,
            partitions,
            replication,
            config,
            if_not_exists,
        } => {
            let topics = topics.into_iter().map(|name| {
                let topic = Topic::new(name)
                    .partitions(partitions.unwrap_or(BROKER_DEFAULT))
                    .replication(replication.map_or(BROKER_DEFAULT, i32::from));
                config.iter().fold(topic, |topic, (name, value)| topic.config(name, value))
            });
            create(&cluster, topics.collect(), if_not_exists)
        }
        TopicsAction::List { cluster, internal } => list(&cluster, internal),
        TopicsAction::Delete { cluster, topics } => delete(&cluster, &topics),
    }
}

/// A client for a command.
///
/// # Errors
/// `Config` for an address or a property that is none.
pub(super) fn client(args: &ClusterArgs) -> Result<Client> {
    let bootstrap = ("bootstrap.servers".to_owned(), args.bootstrap.clone());
    Client::from_properties(args.properties.iter().cloned().chain([bootstrap]))?.build()
}

fn create(cluster: &ClusterArgs, topics: Vec<Topic>, if_not_exists: bool) -> Result<End> {
    let mut admin = client(cluster)?.admin();
    if if_not_exists {
        admin = admin.if_not_exists();
    }
    let wanted = topics.len();
    let mut created = 0;
    for topic in admin.create_topics(topics)? {
        match topic.result {
            Ok(made) => {
                created += 1;
                let how = if made.existed { "exists already" } else { "created" };
                report::line(&format!("{}: {how}", topic.name));
            }
            Err(error) => report::line(&format!("ottla: {}: {error}", topic.name)),
        }
    }
    Ok(counted("created", created, wanted))
}

fn delete(cluster: &ClusterArgs, topics: &[String]) -> Result<End> {
    let mut deleted = 0;
    for topic in client(cluster)?.admin().delete_topics(topics.iter().cloned())? {
        match topic.result {
            Ok(()) => {
                deleted += 1;
                report::line(&format!("{}: deleted", topic.name));
            }
            Err(error) => report::line(&format!("ottla: {}: {error}", topic.name)),
        }
    }
    Ok(counted("deleted", deleted, topics.len()))
}

fn counted(verb: &str, done: usize, wanted: usize) -> End {
    report::line(&format!("{verb} {done} of {}", report::count(wanted as u64, "topic")));
    if done == wanted { End::Complete } else { End::Incomplete }
}

fn list(cluster: &ClusterArgs, internal: bool) -> Result<End> {
    let mut topics = client(cluster)?.admin().list_topics()?;
    topics.retain(|topic| internal || !topic.is_internal);
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    let mut text = String::new();
    for topic in &topics {
        let replicas = topic.partitions.iter().map(|p| p.replicas.len()).max().unwrap_or(0);
        let partitions = topic.partitions.len();
        writeln!(text, "{}\t{partitions}\t{replicas}", topic.name)
            .expect("a string can always be written to");
    }
    let end = Output::print(&text);
    let count = report::count(topics.len() as u64, "topic");
    report::line(&format!("{count} (name, partitions, replicas)"));
    Ok(end)
}
