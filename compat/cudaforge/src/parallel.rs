//! How many files are compiled at once.

/// How many files are compiled at once.
#[derive(Debug, Clone)]
pub struct ParallelConfig {
    percentage: f32,
    most: Option<usize>,
    least: usize,
    patterns: Vec<String>,
    nvcc_threads: usize,
}

impl Default for ParallelConfig {
    fn default() -> Self {
        Self {
            percentage: 1.0,
            most: None,
            least: 1,
            patterns: Vec::new(),
            nvcc_threads: 1,
        }
    }
}

impl ParallelConfig {
    /// As many as the machine has CPUs, within what cargo grants.
    pub fn new() -> Self {
        Self::default()
    }

    /// This part of the machine's CPUs, 0 to 1.
    pub fn with_percentage(mut self, percentage: f32) -> Self {
        self.percentage = percentage.clamp(0.0, 1.0);
        self
    }

    /// No more than these.
    pub fn with_max_threads(mut self, max: usize) -> Self {
        self.most = Some(max);
        self
    }

    /// No fewer than these.
    pub fn with_min_threads(mut self, min: usize) -> Self {
        self.least = min.max(1);
        self
    }

    /// Files that nvcc would compile with several threads. Architectures are compiled side by side here, for all files.
    pub fn with_nvcc_thread_patterns<S: AsRef<str>>(
        mut self,
        patterns: &[S],
        num_nvcc_threads: usize,
    ) -> Self {
        self.patterns = patterns
            .iter()
            .map(|pattern| pattern.as_ref().to_owned())
            .collect();
        self.nvcc_threads = num_nvcc_threads;
        self
    }

    /// Whether a path is one of those.
    pub fn should_use_nvcc_threads(&self, path_str: &str) -> bool {
        self.patterns
            .iter()
            .any(|pattern| path_str.contains(pattern.as_str()))
    }

    /// How many files are compiled at once.
    pub fn thread_count(&self) -> usize {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let part = (cpus as f32 * self.percentage).round() as usize;
        self.most.unwrap_or(part).max(self.least)
    }

    /// What nvcc would be told.
    pub fn nvcc_threads(&self) -> Option<usize> {
        (self.nvcc_threads > 1).then_some(self.nvcc_threads)
    }
}
