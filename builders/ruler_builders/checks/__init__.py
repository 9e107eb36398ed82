"""What a build checks of its rows: solvers that read only the prompt, floors, known defects."""
