//! Running a library's code to learn its functions: `redis.register_function`.

use crate::errors::{self, Description};
use crate::library::{Function, is_name};
use crate::lua::{Frame, Kind, Raised, Request, Resume};
use crate::{Error, Flags, Machine};
use std::ffi::c_int;

/// Functions registered so far.
#[derive(Debug, Default)]
pub(crate) struct Loading {
    functions: Vec<(Function, c_int)>,
}

/// A library's functions in a machine's registry, ordered by name.
#[derive(Debug)]
pub(crate) struct Loaded {
    functions: Vec<(Function, c_int)>,
}

impl Loaded {
    pub(crate) fn reference(&self, name: &str) -> Option<c_int> {
        let at = self.functions.binary_search_by(|(function, _)| (*function.name).cmp(name)).ok()?;
        self.functions.get(at).map(|(_, reference)| *reference)
    }

    pub(crate) fn references(&self) -> impl Iterator<Item = c_int> {
        self.functions.iter().map(|(_, reference)| *reference)
    }

    pub(crate) fn functions(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().map(|(function, _)| function)
    }
}

/// Runs a library's code, without its shebang. Its log lines are lost.
pub(crate) fn load(machine: &mut Machine, code: &[u8]) -> Result<Loaded, Error> {
    let globals = machine.globals;
    machine.state.set_globals(globals.function);
    let mut frame = machine.state.frame();
    if !frame.compile(code, c"@user_function") {
        let text = String::from_utf8_lossy(frame.bytes(-1).unwrap_or_default()).into_owned();
        frame.truncate(0);
        return Err(Error::new(format!("ERR Error compiling function: {text}")));
    }
    // The globals of the library while it is loaded.
    let show = |machine: &mut Machine, real| {
        let mut frame = machine.state.frame();
        frame.push_reference(globals.function_meta);
        frame.push_reference(real);
        frame.set_field(-2, "__index");
        frame.pop(1);
    };
    show(machine, globals.load_real);
    let outcome = run(machine);
    show(machine, globals.function_real);
    machine.state.frame().truncate(0);
    let mut functions = machine.state.shared().loading.take().map(|loading| loading.functions).unwrap_or_default();
    functions.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    let loaded = Loaded { functions };
    if outcome.is_err() {
        let mut frame = machine.state.frame();
        loaded.references().for_each(|reference| frame.let_go(reference));
    }
    outcome.map(|()| loaded)
}

/// Runs the function on the stack.
fn run(machine: &mut Machine) -> Result<(), Error> {
    let stack = machine.take_stack()?;
    let shared = machine.state.shared();
    shared.reset(0);
    *shared.loading.borrow_mut() = Some(Loading::default());
    let mut fiber = machine.state.fiber(stack, 0, 0);
    let mut slices = machine.load_slices();
    let mut input = Resume::Continue;
    let shared = machine.state.shared();
    let status = loop {
        input = match fiber.resume(shared, input) {
            Ok(status) => break status,
            Err(Request::Log(..)) => Resume::Continue,
            Err(Request::Slice) if slices > 0 => {
                slices -= 1;
                Resume::Continue
            }
            Err(Request::Slice) => {
                shared.stop("FUNCTION LOAD timeout");
                Resume::Stop
            }
            Err(Request::Call | Request::Check) => {
                shared.stop("commands cannot be called by FUNCTION LOAD");
                Resume::Stop
            }
        };
    };
    machine.stack = fiber.into_stack();
    if status == 0 {
        return Ok(());
    }
    let mut frame = machine.state.frame();
    let text = Description::of(&mut frame).text;
    Err(Error::new(format!("ERR Error registering functions: {}", String::from_utf8_lossy(&text))))
}

/// `redis.register_function`.
pub(crate) fn register_function(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    let Some(mut loading) = f.shared().loading.take() else {
        return Err(errors::raise(f, "redis.register_function can only be called on FUNCTION LOAD command"));
    };
    let outcome = register(f, &mut loading);
    f.shared().loading.replace(Some(loading));
    match outcome {
        Ok(()) => Ok(0),
        Err(text) => Err(errors::raise(f, text)),
    }
}

fn register(f: &mut Frame<'_>, loading: &mut Loading) -> Result<(), &'static str> {
    let given = match f.args() {
        1 => named(f)?,
        2 => positional(f)?,
        _ => return Err("wrong number of arguments to redis.register_function"),
    };
    // The function is on top.
    if !is_name(&given.name) {
        return Err(
            "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
        );
    }
    let name = String::from_utf8_lossy(&given.name).into_owned().into_boxed_str();
    if loading.functions.iter().any(|(function, _)| function.name == name) {
        return Err("Function already exists in the library");
    }
    let reference = f.keep();
    loading.functions.push((Function { name, description: given.description, flags: given.flags }, reference));
    Ok(())
}

/// The declaration of a function.
#[derive(Default)]
struct Given {
    name: Vec<u8>,
    description: Option<Box<[u8]>>,
    flags: Flags,
}

fn positional(f: &mut Frame<'_>) -> Result<Given, &'static str> {
    let Some(name) = f.arg(1) else { return Err("first argument to redis.register_function must be a string") };
    if f.kind(2) != Kind::Function {
        return Err("second argument to redis.register_function must be a function");
    }
    f.push_copy(2);
    Ok(Given { name: name.into(), ..Given::default() })
}

fn named(f: &mut Frame<'_>) -> Result<Given, &'static str> {
    if f.kind(1) != Kind::Table {
        return Err(
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        );
    }
    let (mut name, mut callback, mut given) = (None, false, Given::default());
    // The callback's place, below key and value.
    f.push_nil();
    let slot = f.top();
    f.push_nil();
    while f.next(1) {
        let key = match f.kind(-2) {
            Kind::String => f.bytes(-2).unwrap_or_default().to_ascii_lowercase(),
            Kind::Number => return Err("unknown argument given to redis.register_function"),
            _ => return Err("named argument key given to redis.register_function is not a string"),
        };
        match &key[..] {
            b"function_name" => {
                let text = text(f).ok_or("function_name argument given to redis.register_function must be a string")?;
                name = Some(text);
            }
            b"description" => {
                let text = text(f).ok_or("description argument given to redis.register_function must be a string")?;
                given.description = Some(text.into());
            }
            b"callback" => {
                if f.kind(-1) != Kind::Function {
                    return Err("callback argument given to redis.register_function must be a function");
                }
                callback = true;
                f.push_copy(-1);
                f.insert(slot);
                f.remove(slot + 1);
            }
            b"flags" => {
                if f.kind(-1) != Kind::Table {
                    return Err(
                        "flags argument to redis.register_function must be a table representing function flags",
                    );
                }
                given.flags = flags(f).ok_or("unknown flag given")?;
            }
            _ => return Err("unknown argument given to redis.register_function"),
        }
        f.pop(1);
    }
    given.name = name.ok_or("redis.register_function must get a function name argument")?;
    if !callback {
        return Err("redis.register_function must get a callback argument");
    }
    Ok(given)
}

/// The text on top: a string, or a number.
fn text(f: &mut Frame<'_>) -> Option<Vec<u8>> {
    match f.kind(-1) {
        Kind::Number => {
            let mut text = Vec::new();
            resp::append_double(&mut text, f.number(-1)?);
            Some(text)
        }
        _ => f.bytes(-1).map(<[u8]>::to_vec),
    }
}

/// The flags that the table on top lists.
fn flags(f: &mut Frame<'_>) -> Option<Flags> {
    let mut flags = Flags::default();
    for index in 1..=c_int::MAX {
        let kind = f.push_element(-1, index);
        let known = kind == Kind::Nil || f.bytes(-1).is_some_and(|name| flags.set(&name.to_ascii_lowercase()));
        f.pop(1);
        match (kind, known) {
            (Kind::Nil, _) => break,
            (_, true) => {}
            (_, false) => return None,
        }
    }
    Some(flags)
}
