//! HTTP where commands are expected. A web page can make a browser send a request, with commands as its body, to a
//! server that only the browser's machine may reach: cross protocol scripting. Every line of a request is an inline
//! command here, and an error does not stop the following ones. So, as with Redis, a request ends at its first line or
//! at the header that every request has.

use crate::worker::Worker;
use crate::worker::conn::Conn;
use crate::worker::next::Next;

/// True if the name of a command shows that this is an HTTP request, whose body would be commands.
pub(crate) fn is_request(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

impl Worker {
    /// Closes the connection: nothing behind this command is executed.
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
