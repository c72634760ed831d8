//! Settings as `DescribeConfigs` tells them: the value in force, where it comes from, what stands behind.
//!
//! A topic's value is the first of: what was set for it, what was set for the broker that is asked, for all
//! brokers, the default. What was set for brokers is kept here in [`State`], bounded by who sets it.

use std::collections::BTreeMap;

use super::configs::{Kind, Setting};
use super::{Settings, State};

/// Stands for all brokers, among those for which something was set.
pub(in crate::broker) const ALL_BROKERS: i32 = -1;

/// What has settings (`ConfigResource.Type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) enum Resource {
    Topic,
    Broker,
}

impl Resource {
    /// The resource with that number, if it is one of those here.
    pub(in crate::broker) fn of(number: i8) -> Option<Self> {
        match number {
            2 => Some(Self::Topic),
            4 => Some(Self::Broker),
            _ => None,
        }
    }
}

/// Where a value comes from (`DescribeConfigsResponse.ConfigSource`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) enum Source {
    Topic = 1,
    Broker = 2,
    AllBrokers = 3,
    File = 4,
    Default = 5,
}

/// A setting with its value.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Described {
    pub(in crate::broker) name: String,
    /// `None` for one that this cluster does not know.
    pub(in crate::broker) kind: Option<Kind>,
    pub(in crate::broker) read_only: bool,
    /// What decides, the first above the others: name, value, source.
    pub(in crate::broker) synonyms: Vec<(String, String, Source)>,
    /// The value when nothing decides.
    default: Option<&'static str>,
}

impl Described {
    /// The value in force; none for what might be a secret.
    pub(in crate::broker) fn value(&self) -> Option<String> {
        if self.is_sensitive() {
            return None;
        }
        let first = self.synonyms.first().map(|(_, value, _)| value.clone());
        first.or_else(|| self.default.map(str::to_owned))
    }

    pub(in crate::broker) fn source(&self) -> Source {
        self.synonyms.first().map_or(Source::Default, |(_, _, source)| *source)
    }

    /// Whether the value is kept back: Kafka does so with all that it does not know.
    pub(in crate::broker) fn is_sensitive(&self) -> bool {
        self.kind.is_none()
    }
}

impl State {
    /// The settings of a topic for which `configs` were set, as `broker` sees them.
    pub(in crate::broker) fn describe_topic(
        &self,
        configs: &BTreeMap<String, String>,
        broker: i32,
    ) -> Vec<Described> {
        let row = |setting: &'static Setting| {
            let own = configs.get(setting.name);
            let own = own.map(|value| (setting.name.to_owned(), value.clone(), Source::Topic));
            let brokers = setting.broker().map(|name| self.behind(name, setting, broker));
            Described {
                name: setting.name.to_owned(),
                kind: Some(setting.kind),
                read_only: false,
                synonyms: own.into_iter().chain(brokers.into_iter().flatten()).collect(),
                default: Some(setting.default),
            }
        };
        Setting::all(self.release).map(row).collect()
    }

    /// The settings of `broker`.
    pub(in crate::broker) fn describe_broker(&self, broker: i32) -> Vec<Described> {
        let of_topics = Setting::all(self.release).filter_map(|setting| {
            let name = setting.broker()?;
            Some(Described {
                name: name.to_owned(),
                kind: Some(setting.kind),
                read_only: false,
                synonyms: self.behind(name, setting, broker),
                default: setting.broker_default(),
            })
        });
        let fixed = fixed(&self.settings, broker).map(|(name, kind, value)| Described {
            name: name.to_owned(),
            kind: Some(kind),
            read_only: true,
            synonyms: vec![(name.to_owned(), value, Source::File)],
            default: None,
        });
        let set = [(broker, Source::Broker), (ALL_BROKERS, Source::AllBrokers)];
        let unknown = set.into_iter().flat_map(|(id, source)| self.unknown(id, source));
        of_topics.chain(fixed).chain(unknown).collect()
    }

    /// What was set for all brokers.
    pub(in crate::broker) fn describe_brokers(&self) -> Vec<Described> {
        let known = |name: &str| Setting::of_brokers(name, self.release);
        let set = self.set_for_brokers(ALL_BROKERS);
        let row = |(name, value): (&String, &String)| Described {
            name: name.clone(),
            kind: known(name).map(|setting| setting.kind),
            read_only: false,
            synonyms: vec![(name.clone(), value.clone(), Source::AllBrokers)],
            default: None,
        };
        set.iter().map(row).collect()
    }

    /// What was set for `broker`, or for [`ALL_BROKERS`].
    pub(in crate::broker) fn set_for_brokers(&self, broker: i32) -> &BTreeMap<String, String> {
        static NOTHING: BTreeMap<String, String> = BTreeMap::new();
        self.broker_configs.get(&broker).unwrap_or(&NOTHING)
    }

    /// Sets what is set for `broker`, or for [`ALL_BROKERS`].
    pub(in crate::broker) fn set_brokers(&mut self, broker: i32, set: BTreeMap<String, String>) {
        self.broker_configs.insert(broker, set);
        self.changed();
    }

    /// Whether it is a setting of brokers that cannot change while they run.
    pub(in crate::broker) fn is_fixed(&self, name: &str) -> bool {
        name == "log.dirs" || fixed(&self.settings, 0).any(|(fixed, _, _)| fixed == name)
    }

    /// What brokers say of a setting of topics, the deciding one first.
    fn behind(&self, name: &str, setting: &Setting, broker: i32) -> Vec<(String, String, Source)> {
        let set = |id, source| {
            let value = self.set_for_brokers(id).get(name)?;
            Some((name.to_owned(), value.clone(), source))
        };
        let default = setting.broker_default();
        let default = default.map(|value| (name.to_owned(), value.to_owned(), Source::Default));
        let all = [set(broker, Source::Broker), set(ALL_BROKERS, Source::AllBrokers), default];
        all.into_iter().flatten().collect()
    }

    /// What was set for `id` under names that mean nothing here.
    fn unknown(&self, id: i32, source: Source) -> impl Iterator<Item = Described> {
        let release = self.release;
        let set = self.set_for_brokers(id).iter();
        let unknown = set.filter(move |(name, _)| Setting::of_brokers(name, release).is_none());
        unknown.map(move |(name, value)| Described {
            name: name.clone(),
            kind: None,
            read_only: false,
            synonyms: vec![(name.clone(), value.clone(), source)],
            default: None,
        })
    }
}

/// What a broker was started with.
fn fixed(
    settings: &Settings,
    broker: i32,
) -> impl Iterator<Item = (&'static str, Kind, String)> + use<> {
    [
        ("auto.create.topics.enable", Kind::Boolean, settings.auto_create_topics.to_string()),
        ("broker.id", Kind::Int, broker.to_string()),
        ("default.replication.factor", Kind::Int, settings.replication.to_string()),
        ("node.id", Kind::Int, broker.to_string()),
        ("num.partitions", Kind::Int, settings.partitions.to_string()),
    ]
    .into_iter()
}
