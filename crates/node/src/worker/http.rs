//! HTTP where commands are expected. A page in somebody's browser can have it send a request to a server that only the browser's machine may speak to, with commands
//! as its body: cross protocol scripting. Every line of a request is an inline command here, and errors keep nobody from going on; so, as with Redis, a request
//! ends at its first line or at the header that it cannot be without.

use crate::worker::Worker;
use crate::worker::conn::Conn;
use crate::worker::execute::Next;

/// Whether what is called is no command but a request of HTTP, whose body would be commands.
pub(crate) fn is_request(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

impl Worker {
    /// Closes the connection: nothing that it has sent behind this is executed.
    pub(crate) fn close_to_http(&mut self, conn: &mut Conn) -> Next {
        if self.node.http.is_due(self.engine.now()) {
            tracing::warn!(
                client = conn.session.client.id,
                address = conn.session.client.peer.address,
                "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands. This is likely due to an attacker \
                 attempting to use Cross Protocol Scripting to compromise this server. Connection aborted."
            );
        }
        self.end_session(conn);
        Next::Stop
    }
}
