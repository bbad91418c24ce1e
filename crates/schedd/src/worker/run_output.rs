//! The output of a run as a writer.

use std::io;

use schedd_core::domain::run::excerpt::ExcerptStream;

use crate::attempts::OutputBuffer;

/// A writer into the output of a run, for libraries that write to one. `schedctl logs` shows the
/// output.
///
/// ```
/// use std::io::Write;
///
/// use schedd::Run;
///
/// async fn export((): (), run: Run) -> schedd::Result<()> {
///     writeln!(run.output(), "exported {} rows", 7)?;
///     Ok(())
/// }
/// # let _ = export;
/// ```
#[derive(Debug, Clone)]
pub struct RunOutput(pub(super) OutputBuffer);

impl io::Write for RunOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(ExcerptStream::Stdout, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
