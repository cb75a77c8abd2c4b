//! The stack a script runs on.
//!
//! Invariants: `Shared::yielder` points to the yielder of the fiber that runs, and is null outside of one. Only its
//! owner resumes a fiber, on the thread that made it. A fiber is never dropped while suspended within Lua without
//! having been stopped first.

use super::{Request, Resume, Shared};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use std::ffi::c_int;

pub(super) type Yielder = corosensei::Yielder<Resume, Request>;

/// Bytes of address space of a stack; pages are taken when touched. Lua bounds the depth of C calls to 200, and the
/// deepest frame, that of a library function with a buffer, is some 10 KB.
const STACK: usize = 4 << 20;

/// A stack for a script, kept between scripts.
pub(crate) struct Stack(DefaultStack);

impl Stack {
    pub(crate) fn new() -> std::io::Result<Self> {
        DefaultStack::new(STACK).map(Self)
    }
}

/// A function on a stack of its own.
pub(crate) struct Fiber(Coroutine<Resume, Request, c_int, DefaultStack>);

impl Fiber {
    /// A fiber that will run `body`.
    ///
    /// # Safety
    /// `shared` outlives the fiber.
    pub(super) unsafe fn new(stack: Stack, shared: *const Shared, body: impl FnOnce() -> c_int + 'static) -> Self {
        Self(Coroutine::with_stack(stack.0, move |yielder: &Yielder, _: Resume| {
            // SAFETY: the caller's promise.
            unsafe { &*shared }.yielder.set(yielder);
            body()
        }))
    }

    /// Goes on until the body suspends, or returns its result. To be called until it returns, and not again.
    pub(crate) fn resume(&mut self, shared: &Shared, input: Resume) -> Result<c_int, Request> {
        match self.0.resume(input) {
            CoroutineResult::Yield(request) => Err(request),
            CoroutineResult::Return(status) => {
                shared.yielder.set(std::ptr::null());
                Ok(status)
            }
        }
    }

    /// The stack of a fiber that has returned, for the next.
    pub(crate) fn into_stack(self) -> Option<Stack> {
        if self.0.done() {
            Some(Stack(self.0.into_stack()))
        } else {
            self.abandon();
            None
        }
    }

    /// Gives up a fiber that will not come to an end. Memory of its frames is leaked.
    fn abandon(mut self) {
        // SAFETY: the frames on its stack are those of Lua and of natives, which never run again: the caller closes or
        // leaks the state. Nothing outside borrows from the stack.
        unsafe { self.0.force_reset() };
    }
}

impl Shared {
    /// Suspends the script: `request` goes to the host, its answer comes back. Outside of a fiber there is no host, and
    /// the answer is to stop.
    pub(super) fn suspend(&self, request: Request) -> Resume {
        self.work.set(0);
        let yielder = self.yielder.get();
        if yielder.is_null() {
            return Resume::Stop;
        }
        // SAFETY: not null, so it belongs to the fiber that is running, whose stack holds it.
        unsafe { &*yielder }.suspend(request)
    }
}
