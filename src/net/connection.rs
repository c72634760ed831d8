//! [`Connection`]: one broker, one socket, versions agreed.
//!
//! Owned by one thread at a time; [`Connection::split`] gives the two halves to two threads. Every
//! call takes an absolute deadline. The first failure inside an exchange ends the connection for
//! good, because a late answer must never be taken for the next one (KAFKA-4669): what was in
//! flight is lost, and a pool throws the connection away.
//!
//! Whether a failure is worth another try, and on which broker, is not decided here.

use super::address::Endpoint;
use super::halves::{self, Closer, RequestSender, ResponseReceiver};
use super::negotiate::{Negotiation, Step};
use super::pool::Poolable;
use super::settings::Settings;
use super::stream::Stream;
use super::versions::BrokerVersions;
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{ApiKey, Request, VersionRange};

/// A connection to a broker, after the exchange of versions.
#[derive(Debug)]
pub(crate) struct Connection {
    versions: BrokerVersions,
    sender: RequestSender,
    receiver: ResponseReceiver,
}

impl Connection {
    /// Connects to `endpoint` and agrees on versions. Blocks until `deadline`.
    ///
    /// The name is resolved anew; each of its addresses is tried with its own time-out.
    ///
    /// # Errors
    /// `Resolve`, `Connect` or `Timeout` when there is no connection; `Disconnected`, `Protocol`,
    /// `UnsupportedVersion` or `Broker` when the first exchange fails. All name the endpoint.
    pub(crate) fn open(
        endpoint: &Endpoint,
        settings: &Settings,
        deadline: Deadline,
    ) -> Result<Self> {
        Self::negotiated(endpoint, settings, deadline).map_err(|error| error.with_broker(endpoint))
    }

    fn negotiated(endpoint: &Endpoint, settings: &Settings, deadline: Deadline) -> Result<Self> {
        let mut negotiation = Negotiation::new();
        // Ends: the negotiation allows three connections and one repetition.
        loop {
            let stream = Stream::connect(&endpoint.address, settings, deadline)?;
            let (mut sender, mut receiver) = halves::halves(endpoint.clone(), stream, settings);
            match negotiate(&mut negotiation, &mut sender, &mut receiver, deadline) {
                Ok(versions) => return Ok(Self { versions, sender, receiver }),
                Err(error) if error.kind() != ErrorKind::Disconnected => return Err(error),
                Err(error) if negotiation.ended() => {
                    log::debug!("{endpoint}: {error}; ApiVersions is asked again");
                }
                Err(error) => {
                    let text = "the broker closes connections at the first request; the port may \
                                want TLS or another protocol";
                    return Err(Error::new(ErrorKind::Disconnected, text).with_source(error));
                }
            }
        }
    }

    /// The broker.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        self.sender.endpoint()
    }

    /// What the broker speaks.
    #[cfg_attr(not(test), expect(dead_code, reason = "transactions will ask for features"))]
    pub(crate) fn versions(&self) -> &BrokerVersions {
        &self.versions
    }

    /// The version for `api` on this connection, see [`BrokerVersions::choose`].
    ///
    /// # Errors
    /// `UnsupportedVersion`, naming the ranges; nothing was sent.
    pub(crate) fn version_for(&self, api: ApiKey, cap: VersionRange) -> Result<i16> {
        self.versions.choose(api, cap).map_err(|error| error.with_broker(self.endpoint()))
    }

    /// Sends a request and waits for its answer, until `deadline` at most.
    ///
    /// # Errors
    /// `InvalidInput` when the request cannot be encoded: nothing was sent and the connection stays
    /// good. Any other error is its end.
    pub(crate) fn call<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        deadline: Deadline,
    ) -> Result<R::Response> {
        let context = |error: Error| error.with_api(R::API, version);
        self.receiver.clear(deadline).map_err(context)?;
        self.sender.send(request, version, deadline)?;
        self.receiver.receive_as(deadline).map_err(context)
    }

    /// Sends a request that the broker does not answer (Produce with `acks=0`). What a broker
    /// answers all the same is taken and dropped.
    ///
    /// # Errors
    /// As [`Connection::call`].
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for acks=0 on one thread; the producer has two")
    )]
    pub(crate) fn tell<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        deadline: Deadline,
    ) -> Result<()> {
        self.receiver.clear(deadline).map_err(|error| error.with_api(R::API, version))?;
        self.sender.send_unanswered(request, version, deadline)
    }

    /// The means to end it from another thread.
    pub(crate) fn closer(&self) -> Closer {
        self.sender.closer()
    }

    /// Gives each half to a thread of its own. Either can end the connection; dropping one does.
    pub(crate) fn split(self) -> (RequestSender, ResponseReceiver) {
        (self.sender, self.receiver)
    }
}

impl Poolable for Connection {
    fn is_reusable(&self) -> bool {
        self.receiver.is_reusable()
    }

    fn is_alive(&self) -> bool {
        self.receiver.is_reusable() && self.receiver.is_alive()
    }
}

fn negotiate(
    negotiation: &mut Negotiation,
    sender: &mut RequestSender,
    receiver: &mut ResponseReceiver,
    deadline: Deadline,
) -> Result<BrokerVersions> {
    loop {
        let version = negotiation.version();
        sender.send(&Negotiation::request(), version, deadline)?;
        let answer = receiver.receive(Some(deadline))?;
        let step = negotiation.answered(answer.body());
        match step.map_err(|error| error.with_api(ApiKey::API_VERSIONS, version))? {
            Step::AskAgain => {}
            Step::Done(versions) => return Ok(versions),
        }
    }
}
