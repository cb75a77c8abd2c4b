//! Random numbers and the distributions of keys.

use super::options::{Distribution, Options};

/// A small fast generator (wyrand). Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator for one of several streams of a seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        rng.next();
        rng
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0xa076_1d64_78bd_642f);
        let wide = u128::from(self.0) * u128::from(self.0 ^ 0xe703_7ed1_a0b4_28db);
        (wide >> 64) as u64 ^ wide as u64
    }

    /// A number below `bound`; 0 if `bound` is 0. The bias (below 2^-24 for our bounds) does not matter here.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 to below 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Draws key numbers below the number of keys.
#[derive(Clone, Debug)]
pub enum Keys {
    /// Every key alike.
    Uniform(u64),
    /// Zipf's law over ranks, scattered over the numbers.
    Zipf(Zipf, Scatter),
    /// Number 0 only.
    One,
}

impl Keys {
    /// The distribution that the options ask for.
    pub fn new(options: &Options) -> Self {
        match options.distribution {
            Distribution::Uniform | Distribution::OneTag => Self::Uniform(options.keys),
            Distribution::OneKey => Self::One,
            Distribution::Zipf => Self::Zipf(Zipf::new(options.keys, options.zipf_theta), Scatter::new(options.keys)),
        }
    }

    /// The next key's number.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Uniform(keys) => rng.below(*keys),
            Self::Zipf(zipf, scatter) => scatter.apply(zipf.draw(rng)),
            Self::One => 0,
        }
    }
}

/// Zipf's law: rank k (from 0) has a probability proportional to (k + 1) to the power of -theta.
///
/// Exact and without tables, by rejection-inversion: W. Hörmann and G. Derflinger, "Rejection-inversion to generate
/// variates from monotone discrete distributions", ACM TOMACS 6 (1996).
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: f64,
    theta: f64,
    /// Integral of the density at 1.5, less the first rank's mass.
    low: f64,
    /// Integral of the density at `ranks` + 0.5.
    high: f64,
    /// Distance below which a rounded point is accepted at once.
    squeeze: f64,
}

impl Zipf {
    /// A law over `ranks` ranks.
    pub fn new(ranks: u64, theta: f64) -> Self {
        let mut zipf = Self { ranks: ranks as f64, theta, low: 0.0, high: 0.0, squeeze: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.ranks + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// The next rank, from 0.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let point = self.high + rng.unit() * (self.low - self.high);
            let x = self.inverse(point);
            let rank = x.round().clamp(1.0, self.ranks);
            if rank - x <= self.squeeze || point >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// (x^(1 - theta) - 1) / (1 - theta), and its limit ln x at theta = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.theta) * log;
        let ratio = if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 };
        ratio * log
    }

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.theta)).max(-1.0);
        let ratio = if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 };
        (ratio * y).exp()
    }
}

/// A fixed permutation of the numbers below a bound, so that frequent ranks are not neighbours.
#[derive(Clone, Debug)]
pub struct Scatter {
    bound: u64,
    factor: u64,
}

impl Scatter {
    /// A permutation of the numbers below `bound`.
    pub fn new(bound: u64) -> Self {
        // Near the golden section multiples spread evenly; coprime to the bound they hit every number once.
        let mut factor = (bound as f64 * 0.618_033_988_749_894_9) as u64;
        while gcd(factor, bound) != 1 {
            factor += 1;
        }
        Self { bound, factor }
    }

    #[inline]
    fn apply(&self, number: u64) -> u64 {
        match number.checked_mul(self.factor) {
            Some(product) => product % self.bound,
            None => (u128::from(number) * u128::from(self.factor) % u128::from(self.bound)) as u64,
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_covers_every_key_evenly() {
        let mut rng = Rng::new(1, 0);
        let keys = Keys::Uniform(10);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[keys.draw(&mut rng) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn zipf_matches_its_law() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.5] {
            let ranks = 50u64;
            let zipf = Zipf::new(ranks, theta);
            let mut rng = Rng::new(7, 3);
            let mut counts = vec![0u32; ranks as usize];
            let draws = 200_000;
            for _ in 0..draws {
                counts[zipf.draw(&mut rng) as usize] += 1;
            }
            let total: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-theta)).sum();
            for (rank, count) in counts.iter().enumerate() {
                let expected = f64::from(draws) * ((rank + 1) as f64).powf(-theta) / total;
                let error = (f64::from(*count) - expected).abs();
                assert!(error < 6.0 * expected.sqrt() + 5.0, "theta {theta} rank {rank}: {count}, expected {expected}");
            }
        }
    }

    #[test]
    fn zipf_stays_in_range_for_one_key_and_for_many() {
        let mut rng = Rng::new(1, 1);
        for ranks in [1, 2, 10_000_000_000] {
            let zipf = Zipf::new(ranks, 0.99);
            assert!((0..10_000).all(|_| zipf.draw(&mut rng) < ranks));
        }
    }

    #[test]
    fn scatter_is_a_permutation() {
        for bound in [1, 2, 3, 10, 1000, 1009] {
            let scatter = Scatter::new(bound);
            let mut seen: Vec<u64> = (0..bound).map(|number| scatter.apply(number)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..bound).collect::<Vec<_>>());
        }
    }

    #[test]
    fn streams_of_a_seed_differ_and_repeat() {
        let draw = |stream| Rng::new(5, stream).next();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
