//! Drivers that connect a worker to sockets: epoll and io_uring; listeners.
