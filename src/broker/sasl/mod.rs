//! SASL, the broker's side: who is at the other end of a connection (KIP-12, KIP-43, KIP-152, KIP-368).
//!
//! ```text
//! Fresh --ApiVersions--> VersionsTold --SaslHandshake--> Authenticating --tokens--> Authenticated
//!   |                                        ^    ^                                    |
//!   +--------------SaslHandshake-------------+    +-----SaslHandshake, KIP-368---------+
//! ```
//!
//! A [`Session`] is the state of one connection; it is pure and takes the time as an argument. After
//! `SaslHandshake` version 0 the tokens come raw, each behind its size, after version 1 in
//! `SaslAuthenticate`. Where Kafka closes without an answer (`SaslServerAuthenticator`), so does this; a
//! request of another API amid the tokens, which Kafka answers with an error first, closes too.
//!
//! Invariant: before `Authenticated` no request but the three of SASL reaches a handler.

mod scram;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::protocol::ApiKey;

/// A handshake that comes sooner after the last success is not taken for a new one
/// (`SaslServerAuthenticator.MIN_REAUTHENTICATION_..._ONE_SECOND`).
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How clients say who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SaslMechanism {
    /// Name and password as they are (RFC 4616).
    Plain,
    /// Salted challenge and response over SHA-256 (RFC 5802, RFC 7677).
    ScramSha256,
    /// The same over SHA-512.
    ScramSha512,
}

impl SaslMechanism {
    /// As it is called on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// Who may come in, and for how long.
#[derive(Debug, Default)]
pub(in crate::broker) struct Users {
    users: BTreeMap<SaslMechanism, BTreeMap<String, Secret>>,
    /// `connections.max.reauth.ms`; `None`: for as long as the connection is open.
    pub(in crate::broker) session_max: Option<Duration>,
}

/// What proves a user.
#[derive(Debug)]
enum Secret {
    Password(String),
    Scram(scram::Credential),
}

impl Users {
    /// Lets a user in by `mechanism`. Costs 4096 rounds of its hash for SCRAM.
    pub(in crate::broker) fn add(
        &mut self,
        mechanism: SaslMechanism,
        name: &str,
        password: &str,
        random: &mut fastrand::Rng,
    ) {
        let secret = match mechanism {
            SaslMechanism::Plain => Secret::Password(password.to_owned()),
            _ => Secret::Scram(scram::Credential::new(mechanism, password, random)),
        };
        self.users.entry(mechanism).or_default().insert(name.to_owned(), secret);
    }

    /// Whether connections have to say who they are: as soon as there is a user.
    pub(in crate::broker) fn are_required(&self) -> bool {
        !self.users.is_empty()
    }

    /// The mechanisms by their names.
    pub(in crate::broker) fn mechanisms(&self) -> Vec<String> {
        self.users.keys().map(|mechanism| mechanism.name().to_owned()).collect()
    }

    fn mechanism(&self, name: &str) -> Option<SaslMechanism> {
        self.users.keys().copied().find(|mechanism| mechanism.name() == name)
    }

    fn secret(&self, mechanism: SaslMechanism, user: &str) -> Option<&Secret> {
        self.users.get(&mechanism)?.get(user)
    }
}

/// What a connection has said of itself so far.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) enum Session {
    /// Nobody is asked.
    #[default]
    Open,
    /// Nothing was said.
    Fresh,
    /// `ApiVersions` was answered.
    VersionsTold,
    /// A mechanism was chosen.
    Authenticating(Exchange),
    /// It is known.
    Authenticated(Identity),
}

/// Tokens going back and forth.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Exchange {
    mechanism: SaslMechanism,
    /// Whether they come without Kafka's header.
    raw: bool,
    /// The challenge of SCRAM that was sent.
    challenge: Option<scram::Challenge>,
    /// Who it was before, when it says so again.
    before: Option<Identity>,
}

/// Who it is.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Identity {
    mechanism: SaslMechanism,
    user: String,
    since: Instant,
    until: Option<Instant>,
}

/// What becomes of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) enum Handshake {
    /// Tokens may come.
    Begun,
    /// There is no such mechanism; the connection ends.
    Unsupported,
    /// It is not the time for one.
    IllegalState,
    /// The connection ends.
    Close(&'static str),
}

/// What becomes of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) enum Step {
    /// The next token is awaited, after this one.
    Continue(Vec<u8>),
    /// It is known; the last token, and how long it may stay.
    Done(Vec<u8>, Option<Duration>),
    /// It is not who it says, in Kafka's words; the connection ends.
    Failed(String),
    /// It is not the time for one.
    IllegalState,
}

impl Session {
    /// A new connection's.
    pub(in crate::broker) fn new(users: &Users) -> Self {
        if users.are_required() { Self::Fresh } else { Self::Open }
    }

    /// Whether a request of `api` may be served; else why the connection ends.
    pub(in crate::broker) fn admit(&self, api: ApiKey, now: Instant) -> Result<(), String> {
        let sasl = matches!(api, ApiKey::SASL_HANDSHAKE | ApiKey::SASL_AUTHENTICATE);
        let admitted = match self {
            Self::Open => true,
            Self::Fresh => matches!(api, ApiKey::API_VERSIONS | ApiKey::SASL_HANDSHAKE),
            Self::VersionsTold => api == ApiKey::SASL_HANDSHAKE,
            Self::Authenticating(_) => api == ApiKey::SASL_AUTHENTICATE,
            Self::Authenticated(identity) => {
                if !sasl && identity.until.is_some_and(|until| now >= until) {
                    return Err(format!("the session of {} has expired", identity.user));
                }
                true
            }
        };
        if admitted { Ok(()) } else { Err(format!("{api} before authentication")) }
    }

    /// `ApiVersions` was answered.
    pub(in crate::broker) fn versions_told(&mut self) {
        if matches!(self, Self::Fresh) {
            *self = Self::VersionsTold;
        }
    }

    /// Whether the next frame is a token without a header.
    pub(in crate::broker) fn awaits_raw_token(&self) -> bool {
        matches!(self, Self::Authenticating(exchange) if exchange.raw)
    }

    /// Begins with `mechanism`, at first or again.
    pub(in crate::broker) fn handshake(
        &mut self,
        mechanism: &str,
        raw: bool,
        users: &Users,
        now: Instant,
    ) -> Handshake {
        let before = match self {
            Self::Open | Self::Authenticating(_) => return Handshake::IllegalState,
            Self::Fresh | Self::VersionsTold => None,
            Self::Authenticated(identity) => {
                if users.session_max.is_none() || now < identity.since + AGAIN_AFTER {
                    return Handshake::IllegalState;
                }
                Some(identity.clone())
            }
        };
        let Some(mechanism) = users.mechanism(mechanism) else { return Handshake::Unsupported };
        if before.as_ref().is_some_and(|before| before.mechanism != mechanism) {
            return Handshake::Close("another SASL mechanism than before");
        }
        *self = Self::Authenticating(Exchange { mechanism, raw, challenge: None, before });
        Handshake::Begun
    }

    /// Takes a token of the client.
    pub(in crate::broker) fn token(
        &mut self,
        token: &[u8],
        users: &Users,
        random: &mut fastrand::Rng,
        now: Instant,
    ) -> Step {
        let Self::Authenticating(exchange) = self else { return Step::IllegalState };
        let (user, last) = match exchange.take(token, users, random) {
            Ok(Taken::Challenge(token)) => return Step::Continue(token),
            Ok(Taken::Known(user, last)) => (user, last),
            Err(why) => return Step::Failed(why),
        };
        if let Some(before) = &exchange.before
            && before.user != user
        {
            return Step::Failed(format!(
                "Cannot change principals during re-authentication from User.{}: User.{user}",
                before.user
            ));
        }
        let until = users.session_max.map(|max| now + max);
        let mechanism = exchange.mechanism;
        *self = Self::Authenticated(Identity { mechanism, user, since: now, until });
        Step::Done(last, users.session_max)
    }
}

/// What a good token brings.
enum Taken {
    Challenge(Vec<u8>),
    /// The user, and the last token.
    Known(String, Vec<u8>),
}

impl Exchange {
    fn take(
        &mut self,
        token: &[u8],
        users: &Users,
        random: &mut fastrand::Rng,
    ) -> Result<Taken, String> {
        if self.mechanism == SaslMechanism::Plain {
            return plain(token, users).map(|user| Taken::Known(user, Vec::new()));
        }
        let again = if self.before.is_some() { "re-authentication" } else { "authentication" };
        // Kafka tells no more than this, whatever is wrong.
        let failed = || {
            format!(
                "Authentication failed during {again} due to invalid credentials with SASL mechanism {}",
                self.mechanism.name()
            )
        };
        let Some(challenge) = self.challenge.take() else {
            let first = scram::ClientFirst::parse(token).ok_or_else(failed)?;
            let Some(Secret::Scram(credential)) = users.secret(self.mechanism, &first.user) else {
                return Err(failed());
            };
            let (challenge, answer) = scram::challenge(&first, credential, &scram::nonce(random));
            self.challenge = Some(challenge);
            return Ok(Taken::Challenge(answer));
        };
        let Some(Secret::Scram(credential)) = users.secret(self.mechanism, &challenge.user) else {
            return Err(failed());
        };
        match scram::verify(&challenge, credential, token) {
            Some(last) => Ok(Taken::Known(challenge.user, last)),
            None => Err(failed()),
        }
    }
}

/// The user of a token of PLAIN, or what is wrong with it (`PlainSaslServer`).
fn plain(token: &[u8], users: &Users) -> Result<String, String> {
    let text = String::from_utf8_lossy(token);
    let parts: Vec<&str> = text.split('\0').collect();
    let [authorization_id, user, password] = parts.as_slice() else {
        let count = parts.len();
        return Err(format!("Invalid SASL/PLAIN response: expected 3 tokens, got {count}"));
    };
    if user.is_empty() {
        return Err("Authentication failed: username not specified".to_owned());
    }
    if password.is_empty() {
        return Err("Authentication failed: password not specified".to_owned());
    }
    match users.secret(SaslMechanism::Plain, user) {
        Some(Secret::Password(known)) if known == password => {}
        _ => return Err("Authentication failed: Invalid username or password".to_owned()),
    }
    if !authorization_id.is_empty() && authorization_id != user {
        return Err("Authentication failed: Client requested an authorization id that is different from username"
            .to_owned());
    }
    Ok((*user).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const SESSION: Duration = Duration::from_secs(60);

    fn users() -> Users {
        let mut users = Users { session_max: Some(SESSION), ..Users::default() };
        let mut random = fastrand::Rng::with_seed(1);
        for name in ["alice", "bob"] {
            users.add(SaslMechanism::Plain, name, "secret", &mut random);
        }
        users.add(SaslMechanism::ScramSha256, "alice", "secret", &mut random);
        users
    }

    fn token(session: &mut Session, token: &[u8], now: Instant) -> Step {
        session.token(token, &users(), &mut fastrand::Rng::with_seed(2), now)
    }

    /// A connection of alice.
    fn alice(now: Instant) -> Session {
        let mut session = Session::new(&users());
        assert_eq!(session.handshake("PLAIN", false, &users(), now), Handshake::Begun);
        let done = Step::Done(Vec::new(), Some(SESSION));
        assert_eq!(token(&mut session, b"\0alice\0secret", now), done);
        session
    }

    #[test]
    fn nothing_else_is_admitted_before_success() {
        let now = clock::now();
        let mut session = Session::new(&users());
        let admits = |session: &Session, api| session.admit(api, now).is_ok();
        let all = [
            ApiKey::API_VERSIONS,
            ApiKey::SASL_HANDSHAKE,
            ApiKey::SASL_AUTHENTICATE,
            ApiKey::METADATA,
        ];
        let admitted = |session: &Session| all.map(|api| admits(session, api));
        assert_eq!(admitted(&session), [true, true, false, false]);
        session.versions_told();
        assert_eq!(admitted(&session), [false, true, false, false]);
        session.handshake("PLAIN", false, &users(), now);
        assert_eq!(admitted(&session), [false, false, true, false]);
        assert!(!session.awaits_raw_token());
        assert_eq!(admitted(&alice(now)), [true; 4]);
        assert_eq!(admitted(&Session::new(&Users::default())), [true; 4]);
    }

    #[test]
    fn a_wrong_plain_token_is_refused_in_kafkas_words() {
        let now = clock::now();
        for (bytes, why) in [
            (&b"\0alice\0wrong"[..], "Authentication failed: Invalid username or password"),
            (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
            (b"\0\0secret", "Authentication failed: username not specified"),
            (b"\0alice\0", "Authentication failed: password not specified"),
            (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
            (
                b"bob\0alice\0secret",
                "Authentication failed: Client requested an authorization id that is different from username",
            ),
        ] {
            let mut session = Session::new(&users());
            session.handshake("PLAIN", false, &users(), now);
            assert_eq!(token(&mut session, bytes, now), Step::Failed(why.to_owned()));
        }
    }

    #[test]
    fn a_session_ends_unless_the_same_user_comes_again() {
        let start = clock::now();
        let (late, not_yet) = (start + SESSION, start + SESSION / 2);
        let mut session = alice(start);
        assert!(session.admit(ApiKey::FETCH, not_yet).is_ok());
        assert!(session.admit(ApiKey::FETCH, late).is_err());
        assert!(session.admit(ApiKey::SASL_HANDSHAKE, late).is_ok());
        let users = users();
        assert_eq!(session.handshake("PLAIN", false, &users, start), Handshake::IllegalState);
        let other = session.clone().handshake("SCRAM-SHA-256", false, &users, late);
        assert!(matches!(other, Handshake::Close(_)));
        assert_eq!(session.handshake("PLAIN", false, &users, late), Handshake::Begun);
        let bob = token(&mut session.clone(), b"\0bob\0secret", late);
        assert!(matches!(bob, Step::Failed(why) if why.contains("Cannot change principals")));
        assert!(matches!(token(&mut session, b"\0alice\0secret", late), Step::Done(..)));
        assert!(session.admit(ApiKey::FETCH, late).is_ok());
        assert_eq!(token(&mut session, b"\0alice\0secret", late), Step::IllegalState);
    }

    #[test]
    fn only_mechanisms_with_users_are_offered() {
        let now = clock::now();
        let mut session = Session::new(&users());
        assert_eq!(users().mechanisms(), ["PLAIN", "SCRAM-SHA-256"]);
        let unknown = session.handshake("SCRAM-SHA-512", true, &users(), now);
        assert_eq!(unknown, Handshake::Unsupported);
        assert_eq!(session.handshake("SCRAM-SHA-256", true, &users(), now), Handshake::Begun);
        assert!(session.awaits_raw_token());
        let failed = token(&mut session, b"n,,n=nobody,r=abc", now);
        let why = "Authentication failed during authentication due to invalid credentials with SASL mechanism \
                   SCRAM-SHA-256";
        assert_eq!(failed, Step::Failed(why.to_owned()));
    }
}
