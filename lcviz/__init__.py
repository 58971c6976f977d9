"""The dashboard around the codec: experiments (lab), live runs, charts and pages."""
