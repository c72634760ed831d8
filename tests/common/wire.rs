//! One request over a plain socket: a peer that is no client of ours, for what the client never sends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ottla::protocol::{
    Bytes, Message, Reader, Request, RequestHeader, ResponseHeader, TaggedFields, Writer,
};

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(40);
/// The id of every request: each has a connection of its own.
const CORRELATION_ID: i32 = 7;

/// Asks the broker at `address`. `None` when it closes the connection instead of answering.
pub(crate) fn ask_at<R: Request>(address: &str, version: i16, request: &R) -> Option<R::Response> {
    #[expect(clippy::disallowed_methods, reason = "a peer that is no client of ours")]
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut writer = Writer::new();
    writer.put_be([0; 4]);
    let header = RequestHeader {
        api: R::API,
        version,
        correlation_id: CORRELATION_ID,
        client_id: Some("plain-socket".to_owned()),
        tagged_fields: TaggedFields::default(),
    };
    header.encode(&mut writer).expect("a header");
    request.encode(&mut writer, version).expect("the request fits its version");
    writer.set_i32(0, writer.len() as i32 - 4);
    stream.write_all(&writer.into_vec()).expect("sent");
    let mut size = [0; 4];
    if let Err(error) = stream.read_exact(&mut size) {
        let timed_out = error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!timed_out, "no answer to {} v{version} from {address}", R::NAME);
        return None;
    }
    let mut frame = vec![0; u32::from_be_bytes(size) as usize];
    stream.read_exact(&mut frame).expect("the whole answer");
    let frame = Bytes::from(frame);
    let mut reader = Reader::shared(&frame);
    let header = ResponseHeader::decode(&mut reader, R::API, version).expect("a header");
    assert_eq!(header.correlation_id, CORRELATION_ID);
    let answer = R::Response::decode(&mut reader, version).expect("an answer");
    reader.finish().expect("nothing is left over");
    Some(answer)
}
