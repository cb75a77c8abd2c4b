//! Placeholders for collections that have not landed yet: each is replaced by the type of `object` in `value.rs`.

macro_rules! pending {
    ($($name:ident),*) => { $(
        /// Not there yet.
        #[derive(Clone, Default)]
        pub struct $name;
        impl $name {
            /// 0.
            pub fn len(&self) -> u64 { 0 }
            /// 0.
            pub fn memory(&self) -> usize { 0 }
            /// Unknown.
            pub fn encoding(&self) -> &'static str { "unknown" }
        }
    )* };
}
pending!(ZSet);
