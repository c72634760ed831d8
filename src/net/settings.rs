//! What `net/` needs to know of the configuration; the layers above fill it in.

use std::time::Duration;

/// How connections are made. No delay (RFC 896 is switched off) and keep-alive are always on.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The name that brokers show in their logs.
    pub(crate) client_id: String,
    /// Longest wait for one address to accept.
    pub(crate) connect_timeout: Duration,
    /// Longest answer that is accepted, in bytes.
    pub(crate) receive_max: usize,
    /// Size of the socket's send buffer, the system's if `None`.
    pub(crate) send_buffer: Option<usize>,
    /// Size of the socket's receive buffer, the system's if `None`.
    pub(crate) receive_buffer: Option<usize>,
}

/// Settings of a [`TcpClient`](super::TcpClient).
#[derive(Clone, Debug)]
pub struct TcpSettings {
    pub(super) socket: Settings,
    pub(super) write_timeout: Duration,
}

impl Default for TcpSettings {
    fn default() -> Self {
        Self {
            socket: Settings {
                client_id: String::new(),
                connect_timeout: Duration::from_secs(10),
                receive_max: 128 * 1024 * 1024,
                send_buffer: None,
                receive_buffer: None,
            },
            write_timeout: Duration::from_secs(30),
        }
    }
}

impl TcpSettings {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Longest wait for a connection, shared by the addresses that the name resolves to. Defaults
    /// to 10 s.
    #[must_use]
    pub fn connect_timeout(mut self, wait: Duration) -> Self {
        self.socket.connect_timeout = wait;
        self
    }

    /// Longest time that a write or flush may take. Defaults to 30 s.
    #[must_use]
    pub fn write_timeout(mut self, wait: Duration) -> Self {
        self.write_timeout = wait;
        self
    }

    /// Size of the socket's send buffer (`SO_SNDBUF`). Defaults to the system's choice.
    #[must_use]
    pub fn send_buffer_bytes(mut self, bytes: usize) -> Self {
        self.socket.send_buffer = Some(bytes);
        self
    }

    /// Size of the socket's receive buffer (`SO_RCVBUF`). Defaults to the system's choice.
    #[must_use]
    pub fn receive_buffer_bytes(mut self, bytes: usize) -> Self {
        self.socket.receive_buffer = Some(bytes);
        self
    }

    /// Longest frame that is accepted when reading frames. Defaults to 128 MiB.
    #[must_use]
    pub fn frame_bytes_max(mut self, bytes: usize) -> Self {
        self.socket.receive_max = bytes;
        self
    }
}
