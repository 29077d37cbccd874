// A token in the address after `#`, which no server and no log sees, is entered and taken out of the address.
document.addEventListener('DOMContentLoaded', () => {
  const token = location.hash.slice(1);
  if (!token) return;
  history.replaceState(null, '', location.pathname);
  document.getElementById('token').value = token;
  document.querySelector('form.login').requestSubmit();
});
