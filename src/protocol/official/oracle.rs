//! Generated values of every message and version go through Kafka's own Java classes and come back
//! byte for byte; header versions are asked of them too.

use std::fmt::Debug;
use std::io::{BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::{Release, releases};
use crate::protocol::api::{for_each_api, for_each_message};
use crate::protocol::declare::{Message, Wire};
use crate::protocol::generate::Values;
use crate::protocol::{ApiKey, ErrorCode, RequestHeader, ResponseHeader, TaggedFields, Writer};

/// Values of every size per message and version.
const VALUES: usize = 12;
/// Small values per message and version.
const SMALL_VALUES: usize = 60;
/// More than any answer has.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A program of `tests/oracle/` on the classes of one release.
pub(super) struct Oracle {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts `tests/oracle/PROGRAM`.
    pub(super) fn start(release: &Release, program: &str) -> Self {
        let mut child = Command::new("java")
            .arg("-cp")
            .arg(release.jars.join("*"))
            .arg(format!("{}/tests/oracle/{program}", env!("CARGO_MANIFEST_DIR")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("java can be started");
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, questions, answers }
    }

    pub(super) fn ask(&mut self, question: &[u8]) {
        let pipe = self.questions.as_mut().expect("open until dropped");
        pipe.write_all(question).and_then(|()| pipe.flush()).expect("the oracle listens");
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.answers.read_exact(&mut bytes).expect("the oracle answers");
        bytes
    }

    pub(super) fn byte(&mut self) -> u8 {
        u8::from_be_bytes(self.array())
    }

    fn i16(&mut self) -> i16 {
        i16::from_be_bytes(self.array())
    }

    fn string(&mut self) -> String {
        let length = u16::from_be_bytes(self.array());
        let mut bytes = vec![0; usize::from(length)];
        self.answers.read_exact(&mut bytes).expect("the oracle answers");
        String::from_utf8(bytes).expect("UTF-8")
    }

    pub(super) fn bytes(&mut self) -> Vec<u8> {
        let length = i32::from_be_bytes(self.array());
        let length = usize::try_from(length).expect("a length");
        assert!(length <= ANSWER_BYTES_MAX, "{length} bytes");
        let mut bytes = vec![0; length];
        self.answers.read_exact(&mut bytes).expect("the oracle answers");
        bytes
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // The end of its input is its end.
        self.questions = None;
        let status = self.child.wait();
        if !std::thread::panicking() {
            assert!(status.expect("ours to wait for").success(), "the oracle failed");
        }
    }
}

fn question(name: &str, version: i16, body: &[u8]) -> Vec<u8> {
    let mut question = vec![b'M'];
    question.extend_from_slice(&(name.len() as u16).to_be_bytes());
    question.extend_from_slice(name.as_bytes());
    question.extend_from_slice(&version.to_be_bytes());
    question.extend_from_slice(&(body.len() as u32).to_be_bytes());
    question.extend_from_slice(body);
    question
}

/// What became of one version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Equal,
    NoSuchVersion,
}

fn compare<M: Message + Wire + Debug>(
    oracle: &mut Oracle,
    version: i16,
    values: &mut Values,
) -> Verdict {
    let message: M = values.message(version);
    let mut writer = Writer::new();
    message.encode(&mut writer, version).expect("a generated value is legal");
    let ours = writer.into_vec();
    oracle.ask(&question(M::NAME, version, &ours));
    match oracle.byte() {
        0 => {
            let theirs = oracle.bytes();
            assert!(ours == theirs, "{} v{version}: other bytes for {message:?}", M::NAME);
            Verdict::Equal
        }
        1 => {
            let reason = oracle.bytes();
            let reason = String::from_utf8_lossy(&reason);
            panic!("{} v{version}: {reason}, for {message:?}", M::NAME);
        }
        _ => Verdict::NoSuchVersion,
    }
}

/// The versions of a message that the release knows, all of them compared.
fn compare_all<M: Message + Wire + Debug>(oracle: &mut Oracle) -> Vec<i16> {
    let mut known = Vec::new();
    for version in M::VERSIONS.min..=M::VERSIONS.max {
        let seed = 8 << 32 | u64::from(M::API.0 as u16) << 16 | version as u64;
        let (mut large, mut small) = (Values::new(seed), Values::small(seed));
        if compare::<M>(oracle, version, &mut large) == Verdict::NoSuchVersion {
            continue;
        }
        for _ in 1..VALUES {
            compare::<M>(oracle, version, &mut large);
        }
        for _ in 0..SMALL_VALUES {
            compare::<M>(oracle, version, &mut small);
        }
        known.push(version);
    }
    known
}

#[test]
fn javas_classes_write_the_bytes_they_read_from_us() {
    let releases = releases();
    let mut oracles = releases.each_ref().map(|release| Oracle::start(release, "Messages.java"));
    let (mut messages, mut versions) = (0, 0);
    let mut compared = [0, 0];
    macro_rules! law {
        ($message:ty) => {
            let known = oracles.each_mut().map(compare_all::<$message>);
            let all = <$message>::VERSIONS;
            for version in all.min..=all.max {
                let somewhere = known.iter().any(|known| known.contains(&version));
                assert!(somewhere, "{} v{version} is in no release", <$message>::NAME);
                versions += 1;
            }
            for (sum, known) in compared.iter_mut().zip(&known) {
                *sum += known.len();
            }
            messages += 1;
        };
    }
    for_each_message!(law);
    for (release, versions) in releases.iter().zip(compared) {
        println!("Kafka {}: {versions} versions of {messages} messages", release.version);
    }
    println!("{versions} versions in all, {} values each and release", VALUES + SMALL_VALUES);
}

fn api_question(kind: u8, api: ApiKey, version: i16) -> Vec<u8> {
    let mut question = vec![kind];
    question.extend_from_slice(&api.0.to_be_bytes());
    question.extend_from_slice(&version.to_be_bytes());
    question
}

/// The client id is empty here: 10 bytes before the tagged fields.
fn our_header_versions(api: ApiKey, version: i16) -> (i16, i16) {
    let tagged_fields = TaggedFields::default();
    let request = RequestHeader {
        api,
        version,
        correlation_id: 1,
        client_id: Some(String::new()),
        tagged_fields: tagged_fields.clone(),
    };
    let response = ResponseHeader { correlation_id: 1, tagged_fields };
    let (mut writer, mut answer) = (Writer::new(), Writer::new());
    request.encode(&mut writer).expect("legal");
    response.encode(&mut answer, api, version).expect("legal");
    (writer.len() as i16 - 9, answer.len() as i16 - 4)
}

#[test]
fn header_versions_agree_with_javas() {
    let releases = releases();
    for release in &releases {
        let mut oracle = Oracle::start(release, "Messages.java");
        let mut agreed = 0;
        for &api in ApiKey::ALL {
            for version in 0..=20_i16 {
                oracle.ask(&api_question(b'H', api, version));
                let javas = (oracle.i16(), oracle.i16());
                if javas != (-1, -1) {
                    assert_eq!(our_header_versions(api, version), javas, "{api} v{version}");
                    agreed += 1;
                }
            }
        }
        assert!(agreed > 60, "only {agreed} versions");
        println!("Kafka {}: headers of {agreed} versions agree", release.version);
    }
}

/// KIP-219: from which version on the client itself waits out a throttle time.
#[test]
fn throttle_duties_agree_with_javas() {
    let releases = releases();
    let mut oracles = releases.each_ref().map(|release| Oracle::start(release, "Messages.java"));
    let (mut agreed, mut differences) = (0, Vec::new());
    macro_rules! law {
        ($message:ty) => {
            if <$message>::NAME.ends_with("Response") {
                let facts = <$message>::API.facts().expect("one of ours");
                for version in <$message>::VERSIONS.min..=<$message>::VERSIONS.max {
                    // The newest release that has the version decides: Kafka 3.9 forgot some.
                    let mut askers = oracles.iter_mut();
                    if let Some(javas) = askers.find_map(|o| asked_throttle::<$message>(o, version))
                    {
                        agreed += 1;
                        if facts.client_throttles.contains(version) != javas {
                            differences.push((<$message>::API, version));
                        }
                    }
                }
            }
        };
    }
    for_each_api!(law);
    assert_eq!(differences, [], "the client's duty is the other one");
    assert!(agreed > 120, "only {agreed} versions");
}

/// `None` if the release has no such version.
fn asked_throttle<M: Message + Wire + Debug>(oracle: &mut Oracle, version: i16) -> Option<bool> {
    oracle.ask(&api_question(b'H', M::API, version));
    if (oracle.i16(), oracle.i16()) == (-1, -1) {
        return None;
    }
    let mut writer = Writer::new();
    M::default().encode(&mut writer, version).expect("the default goes into every version");
    let body = writer.into_vec();
    let mut question = api_question(b'T', M::API, version);
    question.extend_from_slice(&(body.len() as u32).to_be_bytes());
    question.extend_from_slice(&body);
    oracle.ask(&question);
    Some(oracle.byte() == 1)
}

#[test]
fn error_codes_agree_with_javas() {
    let [newest, _] = releases();
    let mut oracle = Oracle::start(&newest, "Messages.java");
    let mut differences = Vec::new();
    for code in (-3..=300).map(ErrorCode) {
        let mut question = vec![b'E'];
        question.extend_from_slice(&code.0.to_be_bytes());
        oracle.ask(&question);
        let name = oracle.string();
        let retriable = oracle.byte() == 1;
        assert_eq!(code.name().unwrap_or_default(), name, "{}", code.0);
        if code.is_retriable() != retriable {
            differences.push(code);
        }
    }
    assert_eq!(differences, []);
}
