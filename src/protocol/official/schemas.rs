//! Each declaration is compared with the official schema, version by version: fields and their
//! order, types, nesting, nullability, tags, defaults, what may be left out, which versions there
//! are, which are flexible, which are stable.

use serde_json::Value;

use super::{Release, releases};
use crate::protocol::VersionRange;
use crate::protocol::api::for_each_message;
use crate::protocol::declare::{FieldSchema, Message, StructSchema, Wire};

/// Structs with a name of their own, each with that in Kafka's schema: Kafka uses one name for different
/// things in several messages.
const RENAMED: &[(&str, &str)] = &[
    ("LeaderEpochEndOffset", "EpochEndOffset"),
    ("ListedTransaction", "TransactionState"),
    ("DescribedTransaction", "TransactionState"),
    ("DescribedTransactionTopic", "TopicData"),
    ("DescribedConsumerGroup", "DescribedGroup"),
    ("DescribedConsumerGroupMember", "Member"),
    ("ConsumerGroupDescribeAssignment", "Assignment"),
    ("ConsumerGroupDescribeTopicPartitions", "TopicPartitions"),
    ("ConsumerGroupHeartbeatAssignment", "Assignment"),
    ("ConsumerGroupHeartbeatTopicPartitions", "TopicPartitions"),
    ("ConsumerProtocolTopicPartition", "TopicPartition"),
];

/// A schema of a release.
struct Official {
    root: Value,
    versions: VersionRange,
    /// Versions of the schema without the newest one where that is marked as unstable.
    stable: VersionRange,
    flexible: VersionRange,
}

fn official(release: &Release, name: &str) -> Official {
    let path = release.schemas.join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let json: String = text.lines().filter(|line| !is_comment(line)).collect();
    let root: Value = serde_json::from_str(&json).expect("JSON once its comments are gone");
    let versions = range(root["validVersions"].as_str());
    let mut stable = versions;
    if root["latestVersionUnstable"].as_bool() == Some(true) {
        stable.max -= 1;
    }
    let flexible = range(root["flexibleVersions"].as_str());
    Official { root, versions, stable, flexible }
}

/// `"3+"`, `"0-12"`, `"7"`, `"none"`.
fn range(text: Option<&str>) -> VersionRange {
    let number = |digits: &str| digits.parse().expect("a version");
    match text {
        None | Some("none") => VersionRange::EMPTY,
        Some(text) => match (text.strip_suffix('+'), text.split_once('-')) {
            (Some(min), _) => VersionRange { min: number(min), max: i16::MAX },
            (None, Some((min, max))) => VersionRange { min: number(min), max: number(max) },
            (None, None) => VersionRange { min: number(text), max: number(text) },
        },
    }
}

/// A field in one version, in the same words from both sides.
#[derive(Debug, PartialEq, Eq)]
struct Field {
    name: String,
    type_name: String,
    nullable: bool,
    tag: Option<u64>,
    default: String,
    ignorable: bool,
    nested: Vec<Field>,
}

/// What names have in common whether written `NodeId` or `node_id`.
fn plain(name: &str) -> String {
    name.replace('_', "").to_lowercase()
}

fn declared(schema: &StructSchema, version: i16) -> Vec<Field> {
    let in_version = schema.fields.iter().filter(|field| field.versions.contains(version));
    let field = |field: &FieldSchema| {
        let nested = field.nested.map(|nested| declared(nested, version)).unwrap_or_default();
        let type_name = field.type_name.replace(' ', "");
        let inner = type_name
            .strip_prefix("Option<")
            .and_then(|rest| rest.strip_suffix('>'))
            .unwrap_or(&type_name);
        let (prefix, element) = match inner.strip_prefix("Vec<").and_then(|t| t.strip_suffix('>')) {
            Some(element) => ("[]", element),
            None => ("", inner),
        };
        let element = match element {
            "ErrorCode" => "i16",
            ours => RENAMED.iter().find(|(name, _)| *name == ours).map_or(ours, |(_, name)| name),
        };
        let default = match field.default {
            None if type_name.starts_with("Option<") => "null".to_owned(),
            None => String::new(),
            Some("true") => "true".to_owned(),
            Some("Some(String::new())" | "Some(Vec::new())" | "Some(Bytes::new())") => {
                String::new()
            }
            Some("i32::MAX") => i32::MAX.to_string(),
            Some("i32::MIN") => i32::MIN.to_string(),
            Some("i64::MAX") => i64::MAX.to_string(),
            Some(number) => {
                number.parse::<i64>().expect("a default that the comparison knows").to_string()
            }
        };
        Field {
            name: plain(field.name),
            type_name: format!("{prefix}{element}"),
            nullable: field.nullable.contains(version),
            tag: field.tag.map(u64::from),
            default,
            ignorable: field.ignorable,
            nested,
        }
    };
    in_version.map(field).collect()
}

fn expected(schema: &Official, fields: &Value, version: i16) -> Vec<Field> {
    let fields = fields.as_array().expect("fields");
    let in_version = fields.iter().filter(|field| {
        let versions = range(field["versions"].as_str());
        // Where the tag comes later than the field there would be two forms; no message of ours has
        // that.
        if !field["taggedVersions"].is_null() {
            assert_eq!(range(field["taggedVersions"].as_str()), versions, "{field}");
        }
        versions.contains(version)
    });
    let field = |field: &Value| {
        assert!(field["flexibleVersions"].is_null(), "a form of its own: {field}");
        let name = field["name"].as_str().expect("a name");
        let official_type = field["type"].as_str().expect("a type");
        let (prefix, element) = match official_type.strip_prefix("[]") {
            Some(element) => ("[]", element),
            None => ("", official_type),
        };
        let (type_name, is_struct) = match element {
            "int8" => ("i8", false),
            "int16" => ("i16", false),
            "int32" => ("i32", false),
            "int64" => ("i64", false),
            "string" => ("String", false),
            "bytes" | "records" => ("Bytes", false),
            "uuid" => ("Uuid", false),
            "bool" => ("bool", false),
            name => (name, true),
        };
        let nested = if !is_struct {
            Vec::new()
        } else if field["fields"].is_array() {
            expected(schema, &field["fields"], version)
        } else {
            let common = schema.root["commonStructs"].as_array().expect("common structs");
            let found = common.iter().find(|common| common["name"] == element);
            expected(schema, &found.expect("a common struct")["fields"], version)
        };
        let default = match &field["default"] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let default = match default.as_str() {
            "0" | "false" => String::new(),
            hexadecimal if hexadecimal.starts_with("0x") => {
                let digits = hexadecimal.trim_start_matches("0x");
                i64::from_str_radix(digits, 16).expect("a number").to_string()
            }
            _ => default,
        };
        Field {
            name: plain(name),
            type_name: format!("{prefix}{type_name}"),
            nullable: range(field["nullableVersions"].as_str()).contains(version),
            tag: field["tag"].as_u64(),
            default,
            ignorable: field["ignorable"].as_bool() == Some(true),
            nested,
        }
    };
    in_version.map(field).collect()
}

fn flat(fields: &[Field], path: &str, lines: &mut Vec<String>) {
    for field in fields {
        let Field { name, type_name, nullable, tag, default, ignorable, nested } = field;
        lines.push(format!(
            "{path}.{name}: {type_name}, nullable {nullable}, tag {tag:?}, default {default:?}, \
             ignorable {ignorable}"
        ));
        flat(nested, &format!("{path}.{name}"), lines);
    }
}

/// Gives the fields that `newest` has too its `ignorable`.
fn take_ignorable(fields: &mut [Field], newest: &[Field]) {
    for field in fields {
        if let Some(same) = newest.iter().find(|other| other.name == field.name) {
            field.ignorable = same.ignorable;
            take_ignorable(&mut field.nested, &same.nested);
        }
    }
}

/// Compares every version of a message; gives the number of versions and adds what differs.
fn compare<M: Message + Wire>(releases: &[Release; 2], differences: &mut Vec<String>) -> usize {
    let [newest, oldest] = releases.each_ref().map(|release| official(release, M::NAME));
    let facts = M::API.facts().expect("one of ours");
    let mut same = |what: &str, ours: &dyn std::fmt::Debug, theirs: &dyn std::fmt::Debug| {
        let (ours, theirs) = (format!("{ours:?}"), format!("{theirs:?}"));
        if ours != theirs {
            differences.push(format!("{} {what}\n  ours    {ours}\n  Kafka's {theirs}", M::NAME));
        }
    };
    same("lowest version", &M::VERSIONS.min, &oldest.versions.min);
    same("highest version", &M::VERSIONS.max, &newest.versions.max);
    if newest.root["type"] != "data" {
        same("API key", &M::API.0, &newest.root["apiKey"].as_i64().expect("a key"));
    }
    if newest.root["type"] == "request" {
        same("highest stable version", &facts.stable.max, &newest.stable.max);
    }
    let versions = || M::VERSIONS.min..=M::VERSIONS.max;
    let ours: Vec<i16> = versions().filter(|&version| M::is_flexible(version)).collect();
    let theirs: Vec<i16> = versions().filter(|&v| newest.flexible.contains(v)).collect();
    same("versions that are flexible", &ours, &theirs);
    let schema = M::NESTED.expect("a message is a struct");
    for version in versions() {
        let official = if newest.versions.contains(version) { &newest } else { &oldest };
        assert!(official.versions.contains(version), "{} v{version} is in no release", M::NAME);
        let mut ours = Vec::new();
        flat(&declared(schema, version), "", &mut ours);
        let mut theirs = Vec::new();
        let mut fields = expected(official, &official.root["fields"], version);
        // What may be left out is said of versions that lack the field: the newest release decides.
        let newest_fields = expected(&newest, &newest.root["fields"], newest.versions.min);
        take_ignorable(&mut fields, &newest_fields);
        flat(&fields, "", &mut theirs);
        for line in ours.iter().filter(|line| !theirs.contains(line)) {
            differences.push(format!("{} v{version}, ours only:    {line}", M::NAME));
        }
        for line in theirs.iter().filter(|line| !ours.contains(line)) {
            differences.push(format!("{} v{version}, Kafka's only: {line}", M::NAME));
        }
        if ours.len() == theirs.len() && ours != theirs {
            differences.push(format!("{} v{version}: another order of fields", M::NAME));
        }
    }
    usize::try_from(M::VERSIONS.max - M::VERSIONS.min + 1).expect("not empty")
}

#[test]
fn every_declaration_agrees_with_the_official_schemas() {
    let releases = releases();
    let (mut messages, mut versions, mut differences) = (0, 0, Vec::new());
    macro_rules! law {
        ($message:ty) => {
            versions += compare::<$message>(&releases, &mut differences);
            messages += 1;
        };
    }
    for_each_message!(law);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let [newest, oldest] = &releases;
    println!(
        "{messages} messages in {versions} versions agree with Kafka {} and {}",
        newest.version, oldest.version
    );
}
