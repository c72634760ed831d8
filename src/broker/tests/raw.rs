//! A peer that writes and reads frames itself, so that a test sees the bytes and the ends.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::protocol::{
    Bytes, Message, Reader, Request, RequestHeader, ResponseHeader, TaggedFields, Writer,
};

/// Longer than anything these tests wait for.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection to a broker.
pub(super) struct Raw {
    pub(super) stream: TcpStream,
    correlation_id: i32,
}

impl Raw {
    /// Connects to the first broker in `bootstrap`.
    pub(super) fn connect(bootstrap: &str) -> Self {
        let address = bootstrap.split(',').next().expect("split gives one at least");
        #[expect(clippy::disallowed_methods, reason = "a peer that is no client of ours")]
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        Self { stream, correlation_id: 0 }
    }

    /// Sends `request` without reading the answer; gives its correlation id.
    pub(super) fn send<R: Request>(&mut self, request: &R, version: i16) -> i32 {
        self.correlation_id += 1;
        let frame = frame(request, version, self.correlation_id);
        self.stream.write_all(&frame).expect("sent");
        self.correlation_id
    }

    /// The next frame without its size; `None` when the broker has closed.
    pub(super) fn frame(&mut self) -> Option<Bytes> {
        let mut size = [0; 4];
        self.read(&mut size)?;
        let mut frame = vec![0; usize::try_from(i32::from_be_bytes(size)).expect("a size")];
        self.read(&mut frame)?;
        Some(Bytes::from(frame))
    }

    /// Sends and reads the answer, `None` when the broker closes instead.
    pub(super) fn ask<R: Request>(&mut self, request: &R, version: i16) -> Option<R::Response> {
        let id = self.send(request, version);
        let frame = self.frame()?;
        let mut reader = Reader::shared(&frame);
        let head = ResponseHeader::decode(&mut reader, R::API, version).expect("a header");
        assert_eq!(head.correlation_id, id);
        let start = reader.position();
        let body = frame.slice(start..frame.len()).expect("inside the frame");
        Some(R::Response::decode_all(&body, version).expect("an answer"))
    }

    /// All that comes until the broker closes.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => rest,
            Err(error) => panic!("the broker should have closed: {error}"),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> Option<()> {
        match self.stream.read_exact(bytes) {
            Ok(()) => Some(()),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
                ) =>
            {
                None
            }
            Err(error) => panic!("neither an answer nor an end: {error}"),
        }
    }
}

/// A request as it travels.
pub(in crate::broker) fn frame<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.put_be([0; 4]);
    let header = RequestHeader {
        api: R::API,
        version,
        correlation_id,
        client_id: Some("raw".to_owned()),
        tagged_fields: TaggedFields::default(),
    };
    header.encode(&mut writer).expect("a header");
    request.encode(&mut writer, version).expect("a body");
    writer.set_i32(0, writer.len() as i32 - 4);
    writer.into_vec()
}
