//! The health verdict Argo CD shows for a Stack.
