//! SCRAM (RFC 5802, RFC 7677), the server's side, without channel binding, as Kafka has it
//! (`ScramSaslServer`).
//!
//! Messages of a client are parsed without trust: anything that is not of the form is `None`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};

use super::SaslMechanism;

/// Kafka's default and least.
const ITERATIONS: u32 = 4096;
const SALT_BYTES: usize = 16;
/// Characters of the nonce that the server adds.
const NONCE_LENGTH: usize = 24;
/// `c=` of a client without channel binding and without another identity is the header of its first message
/// in base64, and no longer than that may be.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// What the server keeps of a password.
#[derive(Debug)]
pub(super) struct Credential {
    mechanism: SaslMechanism,
    salt: Vec<u8>,
    iterations: u32,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Credential {
    pub(super) fn new(
        mechanism: SaslMechanism,
        password: &str,
        random: &mut fastrand::Rng,
    ) -> Self {
        let mut salt = vec![0; SALT_BYTES];
        random.fill(&mut salt);
        Self::with_salt(mechanism, password, salt, ITERATIONS)
    }

    fn with_salt(mechanism: SaslMechanism, password: &str, salt: Vec<u8>, iterations: u32) -> Self {
        let salted = salted_password(mechanism, password, &salt, iterations);
        let client_key = hmac(mechanism, &salted, b"Client Key");
        let stored_key = hash(mechanism, &client_key);
        let server_key = hmac(mechanism, &salted, b"Server Key");
        Self { mechanism, salt, iterations, stored_key, server_key }
    }
}

/// `client-first-message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientFirst {
    pub(super) user: String,
    /// The part before `client-first-message-bare`.
    header: String,
    bare: String,
    nonce: String,
}

impl ClientFirst {
    pub(super) fn parse(token: &[u8]) -> Option<Self> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let text = std::str::from_utf8(token).ok()?;
        // Neither with channel binding (p) nor asking for it (y).
        let rest = text.strip_prefix("n,")?;
        let (authorization_id, bare) = rest.split_once(',')?;
        let mut fields = bare.split(',');
        let user = saslname(fields.next()?.strip_prefix("n=")?)?;
        let nonce = fields.next()?.strip_prefix("r=")?;
        if nonce.is_empty() || !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        match authorization_id {
            "" => {}
            other if saslname(other.strip_prefix("a=")?)? == user => {}
            _ => return None,
        }
        let header = format!("n,{authorization_id},");
        Some(Self { user, header, bare: bare.to_owned(), nonce: nonce.to_owned() })
    }
}

/// What was sent, until the proof comes.
#[derive(Clone, Debug)]
pub(super) struct Challenge {
    pub(super) user: String,
    channel_binding: String,
    nonce: String,
    /// `AuthMessage` as far as it is known: both first messages.
    messages: String,
}

/// `server-first-message`, with what it has to be answered with.
pub(super) fn challenge(
    first: &ClientFirst,
    credential: &Credential,
    own_nonce: &str,
) -> (Challenge, Vec<u8>) {
    let nonce = format!("{}{own_nonce}", first.nonce);
    let salt = STANDARD.encode(&credential.salt);
    let answer = format!("r={nonce},s={salt},i={}", credential.iterations);
    let challenge = Challenge {
        user: first.user.clone(),
        channel_binding: STANDARD.encode(&first.header),
        nonce,
        messages: format!("{},{answer}", first.bare),
    };
    (challenge, answer.into_bytes())
}

/// `server-final-message`, when `client-final-message` proves the password.
pub(super) fn verify(
    challenge: &Challenge,
    credential: &Credential,
    token: &[u8],
) -> Option<Vec<u8>> {
    if token.len() > TOKEN_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(token).ok()?;
    let (without_proof, proof) = text.rsplit_once(",p=")?;
    let mut fields = without_proof.split(',');
    if fields.next()?.strip_prefix("c=")? != challenge.channel_binding
        || fields.next()?.strip_prefix("r=")? != challenge.nonce
    {
        return None;
    }
    let proof = STANDARD.decode(proof).ok()?;
    let mechanism = credential.mechanism;
    let message = format!("{},{without_proof}", challenge.messages);
    let signature = hmac(mechanism, &credential.stored_key, message.as_bytes());
    if proof.len() != signature.len() {
        return None;
    }
    let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
    // Hashes are compared, so the time of it tells nothing of a key.
    if hash(mechanism, &client_key) != credential.stored_key {
        return None;
    }
    let server_signature = hmac(mechanism, &credential.server_key, message.as_bytes());
    Some(format!("v={}", STANDARD.encode(server_signature)).into_bytes())
}

/// The server's part of the nonce.
pub(super) fn nonce(random: &mut fastrand::Rng) -> String {
    (0..NONCE_LENGTH).map(|_| random.alphanumeric()).collect()
}

/// A name with `=2C` and `=3D` for what separates.
fn saslname(text: &str) -> Option<String> {
    let mut parts = text.split('=');
    let mut name = parts.next()?.to_owned();
    for part in parts {
        if let Some(rest) = part.strip_prefix("2C") {
            name.push(',');
            name.push_str(rest);
        } else {
            name.push('=');
            name.push_str(part.strip_prefix("3D")?);
        }
    }
    (!name.is_empty()).then_some(name)
}

fn salted_password(
    mechanism: SaslMechanism,
    password: &str,
    salt: &[u8],
    iterations: u32,
) -> Vec<u8> {
    let password = password.as_bytes();
    if mechanism == SaslMechanism::ScramSha512 {
        let mut salted = vec![0; 64];
        pbkdf2::pbkdf2_hmac::<Sha512>(password, salt, iterations, &mut salted);
        salted
    } else {
        let mut salted = vec![0; 32];
        pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut salted);
        salted
    }
}

fn hash(mechanism: SaslMechanism, bytes: &[u8]) -> Vec<u8> {
    if mechanism == SaslMechanism::ScramSha512 {
        Sha512::digest(bytes).to_vec()
    } else {
        Sha256::digest(bytes).to_vec()
    }
}

fn hmac(mechanism: SaslMechanism, key: &[u8], message: &[u8]) -> Vec<u8> {
    fn run<M: Mac + KeyInit>(key: &[u8], message: &[u8]) -> Vec<u8> {
        let mut mac =
            <M as KeyInit>::new_from_slice(key).expect("HMAC takes a key of any length (RFC 2104)");
        mac.update(message);
        mac.finalize().into_bytes().to_vec()
    }
    if mechanism == SaslMechanism::ScramSha512 {
        run::<Hmac<Sha512>>(key, message)
    } else {
        run::<Hmac<Sha256>>(key, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 7677, section 3.
    const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn rfc_7677() -> (Credential, Challenge) {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let credential = Credential::with_salt(SaslMechanism::ScramSha256, "pencil", salt, 4096);
        let first = ClientFirst::parse(FIRST).expect("a first message");
        assert_eq!(first.user, "user");
        let (challenge, answer) = challenge(&first, &credential, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0");
        let expected = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(answer, expected);
        (credential, challenge)
    }

    #[test]
    fn the_exchange_of_the_rfc_succeeds() {
        let (credential, challenge) = rfc_7677();
        let last = verify(&challenge, &credential, FINAL.as_bytes());
        let expected = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".to_vec();
        assert_eq!(last, Some(expected));
    }

    #[test]
    fn a_final_message_with_anything_changed_fails() {
        let (credential, challenge) = rfc_7677();
        for place in 0..FINAL.len() {
            let mut changed = FINAL.as_bytes().to_vec();
            changed[place] ^= 1;
            assert_eq!(verify(&challenge, &credential, &changed), None, "at {place}");
            assert_eq!(verify(&challenge, &credential, &FINAL.as_bytes()[..place]), None);
        }
    }

    #[test]
    fn first_messages_that_kafka_refuses_are_none() {
        for wrong in [
            "",
            "n",
            "y,,n=u,r=a",
            "p=tls-unique,,n=u,r=a",
            "n,,n=,r=a",
            "n,,n=u,r=",
            "n,,n=u",
            "n,,r=a,n=u",
            "n,,n=u=2,r=a",
            "n,,m=x,n=u,r=a",
            "n,a=v,n=u,r=a",
            "n,,n=u,r=\u{e4}",
        ] {
            assert_eq!(ClientFirst::parse(wrong.as_bytes()), None, "{wrong}");
        }
        let named = ClientFirst::parse(b"n,a=a=3Db=2Cc,n=a=3Db=2Cc,r=x,tokenauth=true");
        assert_eq!(named.expect("it is of the form").user, "a=b,c");
    }

    #[test]
    fn sha_512_proves_too() {
        let mechanism = SaslMechanism::ScramSha512;
        let credential = Credential::new(mechanism, "pw", &mut fastrand::Rng::with_seed(3));
        let first = ClientFirst::parse(b"n,,n=u,r=abc").expect("a first message");
        let (challenge, _) = challenge(&first, &credential, "def");
        let without_proof = "c=biws,r=abcdef";
        let salted = salted_password(mechanism, "pw", &credential.salt, ITERATIONS);
        let client_key = hmac(mechanism, &salted, b"Client Key");
        let message = format!("{},{without_proof}", challenge.messages);
        let signature = hmac(mechanism, &credential.stored_key, message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let last = format!("{without_proof},p={}", STANDARD.encode(&proof));
        assert!(verify(&challenge, &credential, last.as_bytes()).is_some());
        assert_eq!(proof.len(), 64);
    }
}
